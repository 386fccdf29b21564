"""How the USDT workload is compiled, and what comes of it."""

import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

SOURCES = Path(__file__).parents[2] / "workloads"
SDT_HEADERS = Path(f"/usr/include/{platform.machine()}-linux-gnu/sys")


class Start(Protocol):
    """The fixture `start`."""

    def __call__(self, program: str | Path, *arguments: str | Path, ready: bool = True) -> int: ...


class Workload(NamedTuple):
    """The executable and the library it is linked with."""

    executable: Path
    library: Path


def build(
    directory: Path, compiler: str, *flags: str, executable_flags: tuple[str, ...] = ()
) -> Workload:
    library = compile_c(
        compiler,
        directory / "libusdt.so",
        *("-shared", "-fPIC", "-Wl,-soname,libusdt.so", *flags),
        *map(str, (SOURCES / "usdt_library.c", SOURCES / "usdt_plain.c")),
    )
    executable = compile_c(
        compiler,
        directory / "usdt_target",
        *("-Wl,-rpath,$ORIGIN", *flags, *executable_flags),
        *map(str, (SOURCES / "usdt_target.c", library)),
    )
    return Workload(executable, library)


def compile_c(compiler: str, output: Path, *arguments: str) -> Path:
    if not SDT_HEADERS.is_dir():
        pytest.skip("<sys/sdt.h> is not there: install systemtap-sdt-dev")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o", str(output), *arguments]
    subprocess.run(command, check=True)
    return output
