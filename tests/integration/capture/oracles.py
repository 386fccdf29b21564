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

# bpftrace prints what its programs print only when all of them are attached.
TICK = 'interval:ms:50 { printf("attached"); }\n'


class Bpftrace:
    """A running bpftrace program, all of whose probes are attached."""

    def __init__(self, program: str) -> None:
        """Start it; skips the test if there is no bpftrace that works."""
        needed("bpftrace")
        self._process = subprocess.Popen(
            [*WITH_TRACEFS, "bpftrace", "-f", "json", "-e", TICK + program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while line := self._line():
            if b'"attached"' in line:
                return
        pytest.skip(f"bpftrace does not work here: {self._process.communicate()[1].decode()}")

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], HANGS_S)[0]:
            self.kill()
        return self._process.stdout.readline()

    def end(self) -> dict[str, Any]:
        """End it, and return its maps by name."""
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
        """Start it; skips the test if there is no perf that works."""
        needed("perf")
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
            pytest.skip(f"perf does not work here: {self._process.communicate()[1].decode()}")

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
