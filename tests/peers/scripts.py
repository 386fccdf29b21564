"""Open vSwitch's own scripts, and what BCC needs for them, unpacked into the cache."""

import shutil
import subprocess
from pathlib import Path

from tests.cache import cache_dir, locked
from tests.debian import Suite

# Debian 12's own Open vSwitch, 3.1, has no kernel_delay.py.
SCRIPT_SUITE, SCRIPT_PACKAGE = "trixie", "openvswitch-test"
SCRIPTS = "usr/share/openvswitch/scripts/usdt"
# The oldest that Debian has now: BCC of any version compiles against them, on any later kernel.
HEADERS_SUITE = "bookworm"
# Debian's modules for BCC are this Python's, whichever else there is.
PYTHON = "/usr/bin/python3"


def scripts() -> Path:
    """The folder that they are in. Raises DebianError where they can't be had."""
    with locked("peers"):
        suite = Suite(SCRIPT_SUITE)
        folder = cache_dir() / "peers" / f"{SCRIPT_PACKAGE}-{suite.version(SCRIPT_PACKAGE)}"
        if not folder.exists():
            _unpack(suite, SCRIPT_PACKAGE, folder)
        return folder / SCRIPTS


def kernel_headers() -> Path:
    """One tree of the headers of a kernel, which BCC compiles against; Debian has them in two."""
    architecture = subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    ).stdout.strip()
    general = f"linux-headers-{architecture}"
    with locked("peers"):
        suite = Suite(HEADERS_SUITE)
        folder = cache_dir() / "peers" / f"headers-{suite.version(general)}"
        if not folder.exists():
            names = [name for name in suite.closure(general) if name.startswith("linux-headers-")]
            work = folder.with_name(folder.name + ".unpacked")
            for name in sorted(set(names) - {general}, reverse=True):
                _unpack(suite, name, work / name)
                tree = work / name / "usr" / "src" / name
                # Both have these links, into a third package that only builds need.
                links = shutil.ignore_patterns("scripts", "tools")
                shutil.copytree(tree, work / "all", ignore=links, dirs_exist_ok=True)
            (work / "all").rename(folder)
            shutil.rmtree(work)
        return folder


def _unpack(suite: Suite, package: str, folder: Path) -> None:
    work = folder.with_name(folder.name + ".work")
    shutil.rmtree(work, ignore_errors=True)
    suite.unpack(work, package)
    work.rename(folder)
