"""kernel_delay.py of Open vSwitch, which compiles its programs with BCC at each start."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.peers.peer import ReportingPeer, last_line
from tests.cache import cache_dir, locked
from tests.debian import DebianError, Suite

# Debian 12's own Open vSwitch, 3.1, has no kernel_delay.py.
SCRIPT_SUITE, SCRIPT_PACKAGE = "trixie", "openvswitch-test"
SCRIPT = "usr/share/openvswitch/scripts/usdt/kernel_delay.py"
# The oldest that Debian has now: BCC of any version compiles against them, on any later kernel.
HEADERS_SUITE = "bookworm"
# Debian's modules for BCC are this Python's, whichever else there is.
PYTHON = "/usr/bin/python3"


class KernelDelayPy(ReportingPeer):
    """A measurement, with options."""

    def __init__(self, *options: str) -> None:
        """Take note of the options."""
        self.name = " ".join(["kernel_delay.py", *options])
        self._options = options
        self._why: str | None = None
        try:
            self._script, self._headers = _script(), _headers()
        except DebianError as error:
            self._why = str(error)

    def lacking(self) -> str | None:
        """Its script, the headers, and what it imports are needed."""
        if self._why is None:
            imports = "import bcc, psutil, pytz"
            done = subprocess.run([PYTHON, "-c", imports], capture_output=True)
            self._why = last_line(done.stderr) if done.returncode else None
        return self._why

    def window(self, pid: int, seconds: float) -> list[str]:
        """See its manual; counting upcalls takes kprobes, which not every kernel has."""
        window = ["--pid", str(pid), "--sample-time", str(seconds), "--skip-upcall-stats"]
        return [PYTHON, "-u", str(self._script), *window, *self._options]

    def ready(self, process: subprocess.Popen[bytes], said: bytes) -> bool:
        """It says so itself."""
        return b"# Start sampling" in said

    def environment(self) -> Mapping[str, str]:
        """Have BCC use our headers, and not look below /lib/modules."""
        return {"BCC_KERNEL_SOURCE": str(self._headers)}


def _script() -> Path:
    with locked("peers"):
        suite = Suite(SCRIPT_SUITE)
        folder = cache_dir() / "peers" / f"{SCRIPT_PACKAGE}-{suite.version(SCRIPT_PACKAGE)}"
        if not folder.exists():
            _unpack(suite, SCRIPT_PACKAGE, folder)
        return folder / SCRIPT


def _headers() -> Path:
    """One tree of the headers of a kernel; Debian has them in two."""
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
    suite.unpack(package, work)
    work.rename(folder)
