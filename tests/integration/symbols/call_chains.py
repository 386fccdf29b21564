"""The call_chain workload, built."""

import subprocess
from pathlib import Path

WORKLOADS = Path(__file__).parents[2] / "workloads"
FLAGS = [
    "-g",
    "-O2",
    "-fomit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--build-id",
    "-Wl,-z,lazy",
]


def build(directory: Path) -> Path:
    """Build the program and its library there, stripped, with debug files in .debug."""
    library = directory / "libcall_chain.so"
    program = directory / "call_chain"
    (directory / ".debug").mkdir()
    gcc_library(library)
    gcc(program, "-pthread", f"-Wl,-rpath,{directory}", WORKLOADS / "call_chain.c", library)
    strip(program)
    strip(library)
    return program


def gcc_library(output: Path, *arguments: str) -> None:
    source = WORKLOADS / "call_chain_library.c"
    gcc(output, "-fPIC", "-shared", "-Wl,-soname,libcall_chain.so", *arguments, source)


def gcc(output: Path, *arguments: object) -> None:
    subprocess.run(["gcc", *FLAGS, *map(str, arguments), "-o", output], check=True)


def strip(file: Path) -> Path:
    """Move the file's debug information to where .gnu_debuglink is looked for."""
    debug = file.parent / ".debug" / f"{file.name}.debug"
    subprocess.run(["objcopy", "--only-keep-debug", file, debug], check=True)
    subprocess.run(["strip", file], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", file], check=True)
    return debug
