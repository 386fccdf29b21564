"""The kernels of kernels.toml: which there are, and their unpacked packages."""

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.cache import cache_dir, locked
from tests.debian import DebianError, Suite

LIST = Path(__file__).with_name("kernels.toml")


@dataclass(frozen=True)
class Kernel:
    """An entry of kernels.toml; `package` is the meta package that follows the newest kernel.

    `open_vswitch` is the suite that the Open vSwitch with probes is of; `architecture` is
    Debian's name of it, this machine's if empty.
    """

    name: str
    suite: str
    package: str
    open_vswitch: str
    architecture: str = ""


@dataclass(frozen=True)
class Image:
    """A kernel that can be booted; `release` is what `uname -r` says in it."""

    kernel: Kernel
    release: str
    vmlinuz: Path


def listed_kernels() -> list[Kernel]:
    """The entries of kernels.toml, in order."""
    return [Kernel(**entry) for entry in tomllib.loads(LIST.read_text())["kernel"]]


def host_only_tests() -> dict[str, str]:
    """The tests that don't run in guests, and why: files, and single ones as FILE::TEST."""
    tests: dict[str, str] = tomllib.loads(LIST.read_text())["host_only"]
    return tests


def guest_tests() -> list[str]:
    """What tells pytest to run all integration tests but those."""
    left_out = [
        f"--deselect={test}" if "::" in test else f"--ignore={test}" for test in host_only_tests()
    ]
    return ["tests/integration", *left_out]


def chosen_tests(choice: Literal["least", "brief"]) -> list[str]:
    """A choice of them, for guests that are emulated; kernels.toml says what for."""
    tests: list[str] = tomllib.loads(LIST.read_text())[choice]
    return tests


def fetch(kernel: Kernel) -> Image:
    """The kernel's image and modules from the cache, downloaded and unpacked if need be."""
    with locked("kernels"):
        suite = Suite(kernel.suite, kernel.architecture)
        names = suite.closure(kernel.package)
        release = _release(kernel, names)
        directory = cache_dir() / "kernels" / release
        if not directory.exists():
            _unpack(suite, [name for name in names if name.endswith(f"-{release}")], directory)
        return Image(kernel, release, _vmlinuz(directory, release))


def _release(kernel: Kernel, names: list[str]) -> str:
    for name in names:
        if match := re.fullmatch(r"linux-image-(\d.*)", name):
            return match[1]
    raise DebianError(f"{kernel.suite}: {kernel.package} depends on no kernel image")


def _unpack(suite: Suite, packages: list[str], directory: Path) -> None:
    """Unpack all packages of one kernel; Debian 14 has its image and its modules in two."""
    partial = directory.with_name(directory.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for package in packages:
        suite.unpack(package, partial)
    # Where the packages keep modules below /usr, depmod and virtme-ng look below /lib.
    if not (partial / "lib").exists():
        (partial / "lib").symlink_to("usr/lib")
    release = next((partial / "lib" / "modules").iterdir()).name
    subprocess.run(["depmod", "--basedir", partial, release], check=True)
    partial.rename(directory)


def _vmlinuz(directory: Path, release: str) -> Path:
    for vmlinuz in (
        directory / "boot" / f"vmlinuz-{release}",
        directory / "lib" / "modules" / release / "vmlinuz",
    ):
        if vmlinuz.exists():
            return vmlinuz
    raise DebianError(f"no kernel image in {directory}: remove it, so that it is unpacked again")
