"""The project's C that reads what a process can write, with libFuzzer and the sanitizers."""

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src" / "kernel_delay"
CAPTURE = SOURCES / "capture" / "syscall_events"

SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ROOMS = ("bpf", "capture/syscall_events", "symbols")
INCLUDES = tuple(f"-I{SOURCES / room}" for room in ROOMS)

# What each is linked with.
TARGETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "longest_events": (
            str(CAPTURE / "longest_events.c"),
            str(CAPTURE / "entry_order.c"),
        ),
        "stack_table": (str(CAPTURE / "stack_table.c"),),
        "unwind_object": ("-ldw", "-lelf"),
        "unwind_stack": ("-ldw", "-lelf"),
    }
)


def build(name: str, folder: Path, driver: str = "-fsanitize=fuzzer") -> Path:
    """Compile a target there; `driver` is what calls it: libFuzzer, or a C file."""
    folder.mkdir(parents=True, exist_ok=True)
    source, options = HERE / f"{name}.c", list(TARGETS[name])
    if name.startswith("unwind_"):
        source = HERE / "unwind.c"
        one = folder / "object.so"
        assembled(one)
        options += [f'-DONE_OBJECT="{one}"'] if name == "unwind_stack" else []
    program = folder / name
    compiler = shlex.split(os.environ.get("FUZZ_CC", "clang"))
    command = [*compiler, *SANITIZED, *INCLUDES, driver, str(source), *options, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def assembled(file: Path) -> None:
    """Make a small library with unwind information of several kinds."""
    flags = ("-O2", "-g1", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id")
    subprocess.run(["gcc", *flags, str(HERE / "object.c"), "-o", str(file)], check=True)
