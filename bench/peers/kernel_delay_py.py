"""kernel_delay.py of Open vSwitch, which compiles its programs with BCC at each start."""

import subprocess
from collections.abc import Mapping

from bench.peers.peer import ReportingPeer, last_line
from tests.debian import DebianError
from tests.peers.scripts import PYTHON, kernel_headers, scripts


class KernelDelayPy(ReportingPeer):
    """A measurement, with options."""

    def __init__(self, *options: str) -> None:
        """Take note of the options."""
        self.name = " ".join(["kernel_delay.py", *options])
        self._options = options
        self._why: str | None = None
        try:
            self._script, self._headers = scripts() / "kernel_delay.py", kernel_headers()
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
