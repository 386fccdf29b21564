"""The demo prints a report and takes everything down, also when it is interrupted."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

WAIT_S = 200.0
StartDemo = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_demo(root_user: None, project: Path, ovs_root: Path, tmp_path: Path) -> StartDemo:
    """Starts the demo with further arguments; its folders are below `tmp_path`."""
    command = [sys.executable, "-m", "lab.demo", "--ovs", str(ovs_root)]

    def start(*args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=project,
            env=os.environ | {"TMPDIR": str(tmp_path)},
            # As a shell does it, so that a signal can be sent to all of it, like Ctrl-C.
            process_group=0,
        )

    return start


def left_in(folder: Path) -> list[str]:
    """Processes that were started with `folder` as TMPDIR."""
    mark = b"TMPDIR=" + os.fsencode(folder)
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "comm").read_text(errors="replace").strip())
        except OSError:
            continue
    return found


def threads(report: str) -> list[tuple[str, str]]:
    """The name of each thread in a report, and what is said of it."""
    return re.findall(r"^ *\d+ (\S+) +(\[.*?)(?=^ *\d+ \S+ +\[|\Z)", report, re.M | re.S)


def ready_percent(reported: str) -> float:
    """How much of the window a thread waited for a CPU, by its account."""
    rows = re.findall(r"^ *ready, \w+ +[\d,]+ +([\d.]+)$", reported, re.M)
    return sum(map(float, rows))


class Competitor:
    """What the demo's competitor ran by when, read from outside while the demo runs."""

    def __init__(self, demo: "subprocess.Popen[str]") -> None:
        """Follow what the demo says of its progress, and then the process."""
        self.pid = 0
        self.progress = ""
        self._ran: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._follow, args=(demo,))
        self._thread.start()

    def _follow(self, demo: "subprocess.Popen[str]") -> None:
        assert demo.stderr is not None
        for line in demo.stderr:
            self.progress += line
            found = re.search(r"the competitor is process (\d+)", line)
            if found:
                self.pid = int(found[1])
                break
        with suppress(FileNotFoundError, ProcessLookupError):
            while self.pid:
                ran_ns = int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0])
                self._ran.append((time.time(), ran_ns))
                time.sleep(0.02)
        self.progress += demo.stderr.read()

    def end(self) -> None:
        """Wait until there is nothing to follow."""
        self._thread.join()

    def ran_s(self, start_s: float, stop_s: float) -> float:
        """Return how long it ran between two times, in s since 1970."""
        at_start, at_stop = (
            max((ran_ns for when, ran_ns in self._ran if when <= limit), default=0)
            for limit in (start_s, stop_s)
        )
        return (at_stop - at_start) / 1e9


def window_of(report: str) -> tuple[float, float]:
    """When a report's window began and ended, in s since 1970."""
    start, stop = (
        datetime.fromisoformat(found).replace(tzinfo=UTC).timestamp()
        for found in re.findall(r"^# (?:Start|Stop) sampling @(\S+)", report, re.M)
    )
    return start, stop


def test_it_reports_and_leaves_nothing(start_demo: StartDemo, tmp_path: Path) -> None:
    # It is stopped every 0.8 s, or a little later.
    with start_demo("--sample-time", "2") as demo:
        competitor = Competitor(demo)
        assert demo.stdout is not None
        report = demo.stdout.read()
        competitor.end()
    assert demo.returncode == 0, competitor.progress
    assert "demo: starting a private Open vSwitch" in competitor.progress
    # Packets come in all the time, so the main thread runs, and it shares its CPU.
    assert any(
        name == "ovs-vswitchd" and "THREAD RUN" in reported and "THREAD READY" in reported
        for name, reported in threads(report)
    ), report
    verdict = [line for line in report.splitlines() if line.startswith("# VERDICT:")]
    assert any("was stopped for" in line for line in verdict), report
    assert left_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    start_s, stop_s = window_of(report)
    ran_s = competitor.ran_s(start_s, stop_s)
    # A twentieth of the window is worth a finding. Beside much else there may be less: fewer of its
    # packets come.
    if max(ready_percent(reported) for _, reported in threads(report)) >= 5:
        assert any("had no CPU" in line for line in verdict), report
    # A fifth of the time it has the CPU to itself, and of the rest a half, unless others want it.
    # The verdict may be of a thread elsewhere; the main thread's table is of the shared CPU.
    if ran_s >= 0.3 * (stop_s - start_s):
        own = [reported for name, reported in threads(report) if name == "ovs-vswitchd"]
        takers = [each.partition("[CPU TAKEN BY]")[2].partition("\n\n")[0] for each in own]
        named = re.compile(rf"^ *spin +{competitor.pid} ", re.M)
        assert any(map(named.search, takers)), report


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing(
    start_demo: StartDemo, tmp_path: Path, how: signal.Signals
) -> None:
    with start_demo("--sample-time", "50") as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "running" in line:
                break
        os.killpg(demo.pid, how)
        demo.communicate(timeout=WAIT_S)
    assert demo.returncode == 128 + how
    deadline = time.monotonic() + WAIT_S
    while left_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_without_open_vswitch_it_is_one_line(project: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lab.demo", "--ovs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, check=False)
    assert done.returncode == os.EX_NOINPUT
    assert done.stdout == ""
    assert done.stderr.startswith("demo: no ovsdb-server under")
    assert done.stderr.count("\n") == 1
