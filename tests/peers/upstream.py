"""A script of Open vSwitch, running beside our command."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from lab.instance import Instance
from tests.peers.scripts import PYTHON, kernel_headers, scripts

# BCC compiles at each start.
START_S = 120.0
ENDS_S = 20.0
# From its first line to the last probe.
ATTACHES_S = 3.0

# The scripts' Python is Debian's, and this is what its packages would be.
_BORROWED = ("scapy",)

# What the scripts draw with, which is not asked for here and would be a hundred packages.
_SUBSTITUTES: Mapping[str, str] = {
    "alive_progress/__init__.py": "from contextlib import contextmanager\n\n\n"
    "@contextmanager\ndef alive_bar(*arguments, **options):\n    yield lambda *done: None\n",
    "halo/__init__.py": "class Halo:\n    pass\n",
    "strenum/__init__.py": "from enum import StrEnum\n",
    "text_histogram3/__init__.py": "def histogram(*arguments, **options):\n    pass\n",
    "matplotlib/__init__.py": "",
    "matplotlib/pyplot.py": "",
}


# What BCC of Debian 12 does not know.
_BYTES = (("unsigned char pkt[", "u8 pkt["), ("unsigned char key[", "u8 key["))
_PATCHES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "flow_reval_monitor.py": (("unsigned char key[", "char key["),),
    "upcall_monitor.py": _BYTES,
    "upcall_cost.py": _BYTES,
}


def answer_for(ovs: Instance, folder: Path) -> None:
    """A substitute for ovs-appctl, for upcall_cost.py to ask for ports while all is stopped."""
    (folder / "ports").write_text(ovs.appctl("dpctl/show"))
    program = folder / "ovs-appctl"
    program.write_text(f"#!/bin/sh\nexec cat {folder}/ports\n")
    program.chmod(0o755)


class Upstream:
    """While it is open the script runs; `output` is what it printed by the end."""

    def __init__(self, folder: Path, script: str, pid: int, *options: str) -> None:
        """Takes note; __enter__ starts it."""
        path = _patched(scripts() / script, folder)
        self.script = script
        self.ended = True
        self._output = folder / f"{script}.output"
        interpreter = ["bpftrace"] if path.suffix == ".bt" else [PYTHON, "-u"]
        self._command = [*interpreter, "-p", str(pid), str(path)]
        if path.suffix == ".py":
            self._command = [*interpreter, str(path), "--pid", str(pid), *options]
        modules = folder / "modules"
        for name, text in _SUBSTITUTES.items():
            (modules / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / name).write_text(text)
        for name in _BORROWED:
            found = find_spec(name)
            if found is not None and found.origin is not None and not (modules / name).exists():
                (modules / name).symlink_to(Path(found.origin).parent)
        headers = str(kernel_headers())
        self._environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "BCC_KERNEL_SOURCE": headers,
            "PYTHONPATH": str(modules),
        }

    def __enter__(self) -> Self:
        """Returns when it says that it has begun."""
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                self._command, stdout=output, stderr=output, env=self._environment
            )
        deadline = time.monotonic() + START_S
        while not any(word in self.output for word in _BEGUN):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.script} did not start: {self.output[-2000:]}")
            time.sleep(0.2)
        time.sleep(ATTACHES_S)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it by Ctrl-C; `ended` is False where it was too busy to end by that."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            self.ended = False
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """Its process, while it runs."""
        return self._process.pid

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._output.read_text(errors="replace")


_BEGUN = (
    "Ctrl-C to end",
    "Press ^C to stop",
    "# Start sampling",
    "PKT_LEN",
    "ts_start, ts_complete",
    "EVENT/REASON",
    "DPIF_OPERATION",
    "RESULT",
)


def _patched(script: Path, folder: Path) -> Path:
    """The script itself, or a copy that differs in its patch."""
    if script.name not in _PATCHES:
        return script
    text = script.read_text()
    for before, after in _PATCHES[script.name]:
        assert text.count(before) == 1, script
        text = text.replace(before, after)
    copy = folder / script.name
    copy.write_text(text)
    return copy
