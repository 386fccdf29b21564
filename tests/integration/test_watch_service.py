"""The units for systemd: they are understood, and `watch` lacks nothing that they take away."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.model import StackFrame
from tests.needs import needed
from tests.units import USER, restricted, settings
from tests.watching.watch import samples_in, watch_of
from tests.workload import wait_until

# As systemd-analyze(1) has it, ten times over: 100 is a service that may do anything.
MOST_EXPOSED = 25

OPTIONS = ("--threshold", "0.005")
# Calls other than polls are hooked once a round is old, or has been long before: that takes as
# long as it takes.
SLEEPS_BETWEEN_POLLS = """
import select, time
while True:
    select.select([], [], [], 0.001)
    time.sleep(0.02)
"""

UNITS = ("kernel-delay-watch.service", "kernel-delay-watch@.service")


@pytest.fixture(params=UNITS)
def unit(project: Path, request: pytest.FixtureRequest) -> Path:
    return project / "setup" / str(request.param)


@pytest.fixture
def folder_of_the_user() -> Iterator[Path]:
    """As systemd makes one for the user of the service."""
    with tempfile.TemporaryDirectory() as name:
        shutil.chown(name, USER)
        yield Path(name)


def analyzed(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [needed("systemd-analyze"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_systemd_understands_all_of_it(unit: Path, tmp_path: Path) -> None:
    installed = tmp_path / unit.name.replace("@", "@redis-server")
    program = "/usr/local/bin/kernel-delay"
    installed.write_text(unit.read_text().replace(program, sys.executable))
    assert program in unit.read_text()

    done = analyzed("verify", "--man=no", installed)

    assert (done.returncode, done.stderr) == (0, "")


def test_process_has_the_name_of_the_instance(project: Path, tmp_path: Path) -> None:
    (line,) = (each for each in settings(project / "setup" / UNITS[1], "Environment"))
    named = line.partition("--comm ")[2].partition('"')[0]
    unit = tmp_path / "named@redis-server.service"
    unit.write_text(f"[Service]\nExecStart=/none/{named}\n")
    # systemd says what it would start.
    assert "/none/redis-server " in analyzed("verify", "--man=no", unit).stderr


def test_it_leaves_little_to_whoever_takes_the_service_over(unit: Path) -> None:
    done = analyzed("security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit)
    assert done.returncode == 0, done.stdout


def test_both_units_leave_the_same(project: Path) -> None:
    first, second = ((project / "setup" / name).read_text() for name in UNITS)
    start = "# What it does is never more urgent"
    own = second.partition(start)[2].replace("kernel-delay-%i", "kernel-delay")
    assert first.partition(start)[2] == own


def test_options_of_the_unit_are_accepted(unit: Path) -> None:
    from kernel_delay import commands
    from kernel_delay.cli import parser_of

    (line,) = settings(unit, "ExecStart")
    _, command, *words = line.replace("$TARGET", "--comm redis").replace("$OPTIONS", "").split()
    assert command == "watch"
    assert parser_of(command, commands.load(command)).parse_args(words).follow


def test_a_record_lacks_nothing_for_want_of_a_right(
    root_user: None, unit: Path, folder_of_the_user: Path
) -> None:
    program = [needed("python3"), "-c", SLEEPS_BETWEEN_POLLS]
    seen: set[Path] = set()
    frames: list[StackFrame] = []

    def has_kernel_stacks() -> bool:
        new = set(watching.recordings()) - seen
        seen.update(new)
        frames.extend(frame for path in new for frame in kernel_frames(path))
        return bool(frames)

    with subprocess.Popen(program) as looping:
        try:
            with watch_of(
                looping.pid, folder_of_the_user, *OPTIONS, within=restricted(unit)
            ) as watching:
                wait_until(has_kernel_stacks, "a record with a kernel stack")
                watching.end()
                said = watching.said()
        finally:
            looping.kill()
    assert "hidden" not in said
    assert all(frame.name for frame in frames)


def kernel_frames(recording: Path) -> list[StackFrame]:
    """What the kernel was in as the calls of the recorded rounds slept."""
    return [
        frame
        for sample in samples_in(recording)
        for event in sample.syscall_events or ()
        if event.kernel_stack is not None
        for frame in sample.stacks[event.kernel_stack]
    ]
