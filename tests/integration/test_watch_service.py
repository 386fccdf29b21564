"""The unit for systemd: systemd reads it, and `watch` does all it can with what that leaves it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needed
from tests.watching.watch import samples_in, watch_of
from tests.workload import Workload, compile_workload, wait_until

# As systemd-analyze(1) has it, ten times over: 100 is a service that may do anything.
MOST_EXPOSED = 45


@pytest.fixture
def unit(project: Path) -> Path:
    return project / "setup" / "kernel-delay-watch.service"


def analyzed(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [needed("systemd-analyze"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_systemd_understands_all_of_it(unit: Path, tmp_path: Path) -> None:
    installed = tmp_path / unit.name
    program = "/usr/local/bin/kernel-delay"
    installed.write_text(unit.read_text().replace(program, sys.executable))
    assert program in unit.read_text()

    done = analyzed("verify", "--man=no", installed)

    assert (done.returncode, done.stderr) == (0, "")


def test_it_leaves_little_to_whoever_takes_the_service_over(unit: Path) -> None:
    done = analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)
    assert done.returncode == 0, done.stdout


def restricted(unit: Path) -> list[str]:
    """What runs a command with the capabilities that the unit leaves it, and with no network."""
    (line,) = (
        line for line in unit.read_text().splitlines() if line.startswith("CapabilityBoundingSet=")
    )
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in line.partition("=")[2].split()]
    bounds = ("--bounding-set", ",".join(("-all", *kept)), "--inh-caps", "-all")
    return ["unshare", "--net", "setpriv", "--no-new-privs", *bounds, "--"]


def test_a_record_lacks_nothing_for_want_of_a_capability(
    root_user: None, unit: Path, tmp_path: Path
) -> None:
    workload = Workload([compile_workload("long_work"), 8])
    options = ("--threshold", "0.005")
    try:
        with watch_of(
            workload.pid, tmp_path / "records", *options, within=restricted(unit)
        ) as watching:
            workload.send()
            wait_until(lambda: len(watching.recordings()) >= 8, "the records")
            watching.end()
            said = watching.said()
    finally:
        workload.kill()
    assert "hidden" not in said
    samples = [sample for path in watching.recordings() for sample in samples_in(path)]
    kernel_stacks = [
        sample.stacks[event.kernel_stack]
        for sample in samples
        for event in sample.syscall_events or ()
        if event.kernel_stack is not None
    ]
    assert kernel_stacks
    assert all(frame.name for stack in kernel_stacks for frame in stack)
