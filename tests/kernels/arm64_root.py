"""What an arm64 guest boots from: a Debian on a disk, a kernel-delay, and the first modules."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setup.python_packages import requirements
from tests.cache import built
from tests.debian import DebianError, Suite, unpack_root
from tests.kernels.images import REPOSITORY, Image
from tests.ovs_with_usdt import cross_build

SUITE, ARCHITECTURE = "bookworm", "arm64"
PACKAGES = Path(__file__).with_name("arm64-packages.txt")

# Of the project's extra `test`, what the tests that measure import.
PYTHON_PACKAGES = (
    "hypothesis",
    "ipykernel",
    "jsonschema",
    "nbclient",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-sdk",
    "pandas",
    "perfetto",
    "polars",
    "prometheus_client",
    "pyarrow",
    "pyelftools",
    "pytest",
    "scapy",
)
PYTHON = "3.11"
SITE_PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"
DISK_BYTES = 4 << 30

# What it takes to mount the disk and the folders that it shares with this machine.
MODULES = ("virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p")

# Nothing of the packages is configured, as that would run their programs: what their scripts do
# that matters here.
LINKS = {"cc": "gcc", "awk": "mawk"}


def disk() -> Path:
    """The image of a file system with the Debian, made if the cache has none."""
    name = "disk.ext4"

    def make(folder: Path) -> None:
        root = folder / "root"
        _unpack(root)
        _install(root / SITE_PACKAGES, *_python_requirements())
        with open(folder / name, "wb") as file:
            file.truncate(DISK_BYTES)
        # Nobody goes on with what a guest has written.
        options = ["-q", "-t", "ext4", "-O", "^has_journal", "-d", str(root), str(folder / name)]
        subprocess.run(["mke2fs", *options], check=True)
        shutil.rmtree(root)

    return built("arm64-disk", make, PACKAGES, _python_requirements(), LINKS) / name


def install_wheel(folder: Path) -> None:
    """Put kernel-delay, of the newest wheel for arm64, and what it imports below the folder.

    Raises DebianError where there is no such wheel.
    """
    dist = Path(os.environ.get("KERNEL_DELAY_DIST", REPOSITORY / "dist"))
    wheels = list(dist.glob("kernel_delay-*_aarch64.whl"))
    if not wheels:
        raise DebianError(f"{dist} has no wheel for arm64: `make test-kernels-arm64` makes one")
    shutil.rmtree(folder, ignore_errors=True)
    _install(folder, str(max(wheels, key=lambda wheel: wheel.stat().st_mtime)))


def open_vswitches(suite: str) -> list[str]:
    """Where tests there find Open vSwitch, as variables: Debian's own, and one with USDT probes."""
    return ["KERNEL_DELAY_OVS=/", f"KERNEL_DELAY_USDT_OVS={cross_build(suite, ARCHITECTURE)}"]


def copy_first_modules(image: Image, folder: Path) -> None:
    """The modules that a guest loads before it has a disk, numbered in their order."""
    folder.mkdir(parents=True)
    if image.modules is None:
        return
    where = [f"--dirname={image.modules}", f"--set-version={image.release}"]
    show = ["modprobe", *where, "--show-depends"]
    lines = [
        line.split()
        for module in MODULES
        for line in subprocess.run(
            [*show, module], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.splitlines()
    ]
    files = dict.fromkeys(Path(words[1]) for words in lines if words[0] == "insmod")
    for number, file in enumerate(files):
        copy = folder / f"{number:02}-{file.name}"
        shutil.copy(file, copy)
        if copy.suffix == ".xz":
            subprocess.run(["xz", "--decompress", copy], check=True)


def copy_busybox(program: Path) -> None:
    """One of arm64's, linked statically: the only program until there is a disk."""

    def make(folder: Path) -> None:
        Suite(SUITE, ARCHITECTURE).unpack(folder, "busybox-static")

    program.parent.mkdir(parents=True)
    folder = built("arm64-busybox", make, SUITE)
    shutil.copy(next(folder.glob("**/bin/busybox")), program)


def _unpack(root: Path) -> None:
    packages = re.findall(r"^[^#\s]+", PACKAGES.read_text(), re.MULTILINE)
    unpack_root(root, SUITE, ARCHITECTURE, packages)
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    for link, program in LINKS.items():
        (root / "usr/bin" / link).symlink_to(program)
    shutil.rmtree(root / "var/cache/apt")


def _python_requirements() -> list[str]:
    """As pyproject.toml has them."""
    return [each for each in requirements(["test"]) if each.split()[0] in PYTHON_PACKAGES]


def _install(folder: Path, *packages: str) -> None:
    """Into the folder, for the guest's Python, by this machine's pip."""
    platforms = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in (34, 28, 17, 5)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    options = [f"--target={folder}", f"--python-version={PYTHON}", *platforms]
    done = subprocess.run([*pip, *options, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DebianError(f"pip: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
