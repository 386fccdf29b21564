"""The kernels of kernels.toml: which there are, and where each can be booted from."""

import os
import re
import shutil
import struct
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.cache import cache_dir, locked
from tests.debian import DebianError, Suite

LIST = Path(__file__).with_name("kernels.toml")


FOLDER_VARIABLE = "KERNEL_DELAY_KERNELS"
REPOSITORY = Path(__file__).parents[2]

# Documentation/x86/boot.rst (5.14): where a bzImage says how far its version is behind 0x200.
VERSION_POINTER, VERSION_BASE = 0x20E, 0x200

# Documentation/arm64/booting.rst (5.14): how an Image of arm64 begins, which is not compressed.
ARM64_MAGIC, ARM64_MAGIC_OFFSET = b"ARM\x64", 0x38
LINUX_BANNER = re.compile(rb"Linux version (\S+)")


class MissingImageError(Exception):
    """A kernel's image is not in the folder of images: its tests can't run here."""


@dataclass(frozen=True)
class Kernel:
    """An entry of kernels.toml: a package of Debian's, or an image in the folder of these.

    Attributes:
        name: What it is called, here and on the page.
        open_vswitch: The suite whose source the Open vSwitch with probes is built from.
        suite: The suite of its package; empty if it is an image.
        package: The meta package that follows the suite's newest kernel.
        image: The name of an image that needs no modules; empty if it is a package.
        architecture: Debian's name of it; this machine's if empty.
        tests: All that runs on it; empty if that is what runs on the others.
        least: Whether `make test` boots it.
    """

    name: str
    open_vswitch: str
    suite: str = ""
    package: str = ""
    image: str = ""
    architecture: str = ""
    tests: tuple[str, ...] = ()
    least: bool = False


@dataclass(frozen=True)
class Image:
    """A kernel that can be booted; `release` is what `uname -r` says in it."""

    kernel: Kernel
    release: str
    vmlinuz: Path

    @property
    def modules(self) -> Path | None:
        """The folder with lib/modules; None if it needs none."""
        return None if self.kernel.image else self.vmlinuz.parents[1]


def listed_kernels() -> list[Kernel]:
    """The entries of kernels.toml, in order."""
    entries = tomllib.loads(LIST.read_text())["kernel"]
    return [Kernel(**{**entry, "tests": tuple(entry.get("tests", ()))}) for entry in entries]


def own_kernels() -> list[Kernel]:
    """Those of this machine's architecture."""
    return [kernel for kernel in listed_kernels() if not kernel.architecture]


def image_folder() -> Path:
    """Where images are that are listed by name: $KERNEL_DELAY_KERNELS, or beside the repository."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else REPOSITORY.parent / "shared" / "kernels"


def host_only_tests() -> dict[str, str]:
    """The tests that don't run in guests, and why: files, and single ones as FILE::TEST."""
    tests: dict[str, str] = tomllib.loads(LIST.read_text())["host_only"]
    return tests


def guest_tests(chosen: Sequence[str] = ("tests/integration",)) -> list[str]:
    """What tells pytest to run these folders, files and tests, without what is the host's alone.

    A file or test of the host's that is named in full runs.
    """
    left_out = [
        f"--deselect={test}" if "::" in test else f"--ignore={test}"
        for test in host_only_tests()
        if not any(one.startswith(test) for one in chosen)
    ]
    return [*chosen, *left_out]


def chosen_tests(choice: Literal["least", "brief"]) -> list[str]:
    """A choice of them, for guests that are emulated; kernels.toml says what for."""
    tests: list[str] = tomllib.loads(LIST.read_text())[choice]
    return tests


def fetch(kernel: Kernel) -> Image:
    """The kernel's image; a package's is in the cache, downloaded and unpacked if need be.

    Raises:
        MissingImageError: It is an image, and not in the folder of these.
        DebianError: The package can't be had.
    """
    if kernel.image:
        return _built_image(kernel)
    with locked("kernels"):
        suite = Suite(kernel.suite, kernel.architecture)
        names = suite.closure(kernel.package)
        release = _release(kernel, names)
        directory = cache_dir() / "kernels" / release
        if not directory.exists():
            _unpack(suite, [name for name in names if name.endswith(f"-{release}")], directory)
        return Image(kernel, release, _vmlinuz(directory, release))


def _built_image(kernel: Kernel) -> Image:
    path = image_folder() / kernel.image
    try:
        image = path.read_bytes()
    except OSError:
        raise MissingImageError(
            f"{path} is not there: setup/kernel-image.sh builds one, ${FOLDER_VARIABLE} says where"
        ) from None
    return Image(kernel, _version(image).decode(), path)


def _version(image: bytes) -> bytes:
    if image.startswith(ARM64_MAGIC, ARM64_MAGIC_OFFSET) and (banner := LINUX_BANNER.search(image)):
        return banner[1]
    (behind,) = struct.unpack_from("<H", image, VERSION_POINTER)
    return image[VERSION_BASE + behind :].partition(b"\0")[0].partition(b" ")[0]


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
        suite.unpack(partial, package)
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
