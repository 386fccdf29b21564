"""What each command imports and reads, and its peak memory, from its start to its end."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cost.recordings import record_threads

COMMAND = Path(sys.executable).with_name("kernel-delay")
_CHILD = Path(__file__).with_name("child.py")
_RECORDED_THREADS = 10


def imported_modules(folder: Path) -> dict[str, int]:
    """Return how many modules each command imports, those of Python's own start included."""
    found = {}
    with _target() as target:
        for name, arguments in _commands(target.pid, folder).items():
            command = [sys.executable, "-X", "importtime", "-P", "-m", "kernel_delay", *arguments]
            lines = _run(command).splitlines()[1:]
            found[f"{name}, modules imported"] = sum("import time:" in line for line in lines)
    return found


def readings(folder: Path) -> dict[str, int]:
    """Return what each command reads, and how much memory it has at most."""
    found = {}
    with _target() as target:
        for name, arguments in _commands(target.pid, folder).items():
            said = _run([sys.executable, "-I", str(_CHILD), str(COMMAND), *arguments])
            for what, value in json.loads(said.splitlines()[-1]).items():
                found[f"{name}, {what}"] = value
    return found


def _commands(pid: int, folder: Path) -> dict[str, Sequence[str]]:
    recording = record_threads(folder / "threads.kdr", _RECORDED_THREADS)
    capture = ("capture", "-p", str(pid), "--sample-time", "0.001")
    return {
        "--version": ("--version",),
        "--help": ("--help",),
        "capture": capture,
        "capture -s": (*capture, "-s"),
        "watch": ("watch", "-p", str(pid), "--time", "0.1"),
        "report": ("report", str(recording)),
    }


def _target() -> "subprocess.Popen[bytes]":
    """Return a process that sleeps, and ends when its standard input does."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


def _run(command: Sequence[str]) -> str:
    """Run it in an environment of its own; return what it wrote to stderr."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    ).stderr
