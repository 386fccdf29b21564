"""A tool run from its start to its end: when its window was, and what it took itself."""

import datetime
import os
import re
import select
import subprocess
import time
from pathlib import Path

from msgspec import Struct

from bench.peers.peer import PeerError, ReportingPeer, last_line

# kernel_delay.py's report has these lines, and so has kernel-delay's.
_EDGE = re.compile(rb"^# (Start|Stop) sampling @(\S+) ", re.MULTILINE)
_HEAD = 65536


class Run(Struct, frozen=True):
    """One run: when (CLOCK_MONOTONIC), its CPU time, the peak of its memory.

    `opened_ns` and `closed_ns` are the boundaries of its first window, 0 where the
    report does not tell them. `ended` is false where it was killed as it did
    not end.
    """

    begun_ns: int
    opened_ns: int
    closed_ns: int
    ended_ns: int
    ended: bool
    cpu_ns: int
    peak_mib: float


def run(peer: ReportingPeer, pid: int, seconds: float, report: Path, limit_s: float = 60.0) -> Run:
    """Run it for one window of process `pid`, its output to `report`.

    Raises PeerError where it fails.
    """
    with open(report, "wb") as output:
        begun_ns = time.monotonic_ns()
        # wait4(2) alone tells what this one took; Popen would have waited.
        process = subprocess.Popen(
            peer.window(pid, seconds),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **peer.environment()},
        )
        ended = _ends(process.pid, limit_s)
        ended_ns = time.monotonic_ns()
        if not ended:
            process.kill()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if ended and process.returncode:
        reason = last_line(report.read_bytes()[-_HEAD:])
        raise PeerError(f"exit status {process.returncode}: {reason}")
    boundaries = _boundaries(report)
    return Run(
        begun_ns=begun_ns,
        opened_ns=boundaries.get(b"Start", 0),
        closed_ns=boundaries.get(b"Stop", 0),
        ended_ns=ended_ns,
        ended=ended,
        cpu_ns=int((usage.ru_utime + usage.ru_stime) * 1e9),
        peak_mib=usage.ru_maxrss / 1024,
    )


def _ends(pid: int, limit_s: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], limit_s)[0])
    finally:
        os.close(descriptor)


def _boundaries(report: Path) -> dict[bytes, int]:
    """Return when its first window began and ended; its text has the time of day."""
    with open(report, "rb") as file:
        found = _EDGE.findall(file.read(_HEAD))
    ahead_ns = time.time_ns() - time.monotonic_ns()
    return {name: _timestamp_ns(text.decode()) - ahead_ns for name, text in reversed(found)}


def _timestamp_ns(local: str) -> int:
    return int(datetime.datetime.fromisoformat(local).timestamp() * 1e6) * 1000
