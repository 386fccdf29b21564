"""The demo prints a report and takes everything down, also when it is interrupted."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


def threads(report: str) -> list[tuple[str, str]]:
    """The name of each thread in a report, and what is said of it."""
    return re.findall(r"^ *\d+ (\S+) +(\[.*?)(?=^ *\d+ \S+ +\[|\Z)", report, re.M | re.S)


def test_it_reports_and_leaves_nothing(start_demo: StartDemo, tmp_path: Path) -> None:
    with start_demo() as demo:
        report, progress = demo.communicate(timeout=WAIT_S)
    assert demo.returncode == 0, progress
    assert "demo: starting a private Open vSwitch" in progress
    # Packets come in all the time, so the main thread runs, and it shares its CPU.
    assert any(
        name == "ovs-vswitchd" and "THREAD RUN" in told and "THREAD READY" in told
        for name, told in threads(report)
    ), report
    competitor = re.search(r"the competitor is process (\d+)", progress)
    assert competitor
    verdict = [line for line in report.splitlines() if line.startswith("# VERDICT:")]
    assert any("had no CPU" in line and f"({competitor[1]}) ran" in line for line in verdict), (
        report
    )
    assert any("was stopped for" in line for line in verdict), report
    assert left_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


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
