"""How the USDT workload is compiled, and what comes of it."""

import platform
import subprocess
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.cache import built
from tests.needs import need_sdt_header, needed
from tests.workload import SOURCES

SDT_HEADERS = Path(f"/usr/include/{platform.machine()}-linux-gnu/sys")


class Start(Protocol):
    """The fixture `start`."""

    def __call__(self, program: str | Path, *arguments: str | Path, ready: bool = True) -> int: ...


class Workload(NamedTuple):
    """The executable and the library it is linked with."""

    executable: Path
    library: Path


def build(
    name: str, compiler: str, *flags: str, executable_flags: tuple[str, ...] = ()
) -> Workload:
    library_sources = (SOURCES / "usdt_library.c", SOURCES / "usdt_plain.c")
    source = SOURCES / "usdt_target.c"

    def make(folder: Path) -> None:
        compile_c(
            compiler,
            folder / "libusdt.so",
            *("-shared", "-fPIC", "-Wl,-soname,libusdt.so", *flags),
            *map(str, library_sources),
        )
        compile_c(
            compiler,
            folder / "usdt_target",
            *("-Wl,-rpath,$ORIGIN", *flags, *executable_flags),
            *map(str, (source, folder / "libusdt.so")),
        )

    folder = built(
        f"usdt_target-{name}", make, *library_sources, source, Path(__file__), executable_flags
    )
    return Workload(folder / "usdt_target", folder / "libusdt.so")


def compile_c(compiler: str, output: Path, *arguments: str) -> Path:
    need_sdt_header()
    needed(compiler)
    command = [compiler, "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o", str(output), *arguments]
    subprocess.run(command, check=True)
    return output
