"""Others that measure the same: independent of what is tested."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.needs import needed
from tests.workload import HANGS_S

# Both read tracefs, which need not be mounted.
MOUNT_AND_RUN = """
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
mountpoint -q /sys/kernel/debug || mount -t debugfs nodev /sys/kernel/debug
exec "$@"
"""
WITH_TRACEFS = ("unshare", "--mount", "sh", "-c", MOUNT_AND_RUN, "sh")

# Each in one line, of what all programs here are made: whoever can't do this can't do them.
BPFTRACE_AT_ALL = "interval:ms:50 { exit(); } tracepoint:sched:sched_switch { @ = count(); }"
PERF_AT_ALL = ("stat", "-e", "sched:sched_switch", "true")


def skip_without_bpftrace() -> None:
    """Skips where bpftrace can trace nothing; what it says of a longer program is a failure."""
    _skip_unless_it_runs("bpftrace", "-e", BPFTRACE_AT_ALL)


def skip_without_perf() -> None:
    """Skips where perf can count nothing."""
    _skip_unless_it_runs("perf", *PERF_AT_ALL)


def _skip_unless_it_runs(*command: str) -> None:
    needed(command[0])
    done = subprocess.run([*WITH_TRACEFS, *command], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{command[0]} does not work here: {done.stderr or done.stdout}")


# bpftrace prints what its programs print only when all of them are attached.
TICK = 'interval:ms:50 { printf("attached"); }\n'


class Bpftrace:
    """A running bpftrace program, all of whose probes are attached."""

    def __init__(self, program: str) -> None:
        """Start it; the test fails if it is not taken."""
        self._process = subprocess.Popen(
            [*WITH_TRACEFS, "bpftrace", "-f", "json", "-e", TICK + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while line := self._line():
            if b'"attached"' in line:
                return
        pytest.fail(f"bpftrace ended: {self._process.communicate()[1].decode()}\n{program}")

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], HANGS_S)[0]:
            self._process.kill()
        return self._process.stdout.readline()

    def has_ended(self) -> bool:
        """Whether it ended by itself, as by exit()."""
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, ended) is not None

    def end(self) -> dict[str, Any]:
        """End it, unless it ended by itself, and return its maps by name."""
        os.kill(self._process.pid, signal.SIGINT)
        output, _ = self._process.communicate(timeout=HANGS_S)
        maps: dict[str, Any] = {}
        for line in output.splitlines():
            if line.startswith(b"{"):
                entry = json.loads(line)
                if entry["type"] == "map":
                    maps.update(entry["data"])
        return maps

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()


StartBpftrace = Callable[[str], Bpftrace]
"""Starts a bpftrace program."""


class PerfStat:
    """A running perf-stat(1) that counts a thread's tracepoints."""

    def __init__(self, tid: int, *events: str) -> None:
        """Start it; the test fails if it does not count."""
        # perf says on one pipe that it counts, when it has read on the other that it is to.
        (self._orders, order), (said, says) = os.pipe(), os.pipe()
        self._order = order
        control = ("--control", f"fd:{self._orders},{says}", "--delay=-1")
        selected = [word for event in events for word in ("-e", event)]
        self._process = subprocess.Popen(
            [*WITH_TRACEFS, "perf", "stat", "-j", *control, *selected, "-t", str(tid)],
            stderr=subprocess.PIPE,
            pass_fds=(self._orders, says),
        )
        os.close(says)
        os.write(order, b"enable\n")
        acknowledged = os.read(said, 16)
        os.close(said)
        if b"ack" not in acknowledged:
            pytest.fail(f"perf ended: {self._process.communicate()[1].decode()}\n{events}")

    def end(self) -> dict[str, int]:
        """End it, and return the count of each event."""
        os.kill(self._process.pid, signal.SIGINT)
        _, output = self._process.communicate(timeout=HANGS_S)
        lines = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
        return {line["event"]: int(float(line["counter-value"])) for line in lines}

    def kill(self) -> None:
        """End it, whatever it does."""
        os.close(self._order)
        os.close(self._orders)
        self._process.kill()
        self._process.communicate()


StartPerfStat = Callable[..., PerfStat]
"""Starts perf-stat(1): the thread's id and the tracepoints."""
