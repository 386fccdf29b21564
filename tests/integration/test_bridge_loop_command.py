"""`kernel-delay bridge-loop`, on a loop that knows its own times and on Open vSwitch."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from kernel_delay.ovs.binaries import Binaries
from kernel_delay.ovs.instance import Instance
from kernel_delay.ovs.traffic import Traffic

SOURCE = Path(__file__).parents[1] / "workloads" / "main_loop.c"
LINE = re.compile(r"- \[(\d+)@(\S+)\] (bridge run loop|poll_block\(\) wait) time ?: (\S+)")
PASSES = 200


class Tool:
    """The command, which runs until it is done or told to stop."""

    def __init__(self, pid: int, *options: str) -> None:
        command = [sys.executable, "-m", "kernel_delay", "bridge-loop", "--pid", str(pid), *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        self.first_line = self._process.stderr.readline()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def output(self) -> str:
        output, errors = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, self.first_line + errors
        return output


def durations_ns(output: str, kind: str) -> list[int]:
    found = [match for line in output.splitlines() if (match := LINE.match(line))]
    return [clock_ns(match[4]) for match in found if match[3].startswith(kind)]


def clock_ns(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, fraction = seconds.split(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**9 + int(fraction)


@pytest.fixture(scope="module")
def main_loop(root_user: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("main_loop") / "main_loop"
    if not list(Path("/usr/include").rglob("sys/sdt.h")):
        pytest.skip("<sys/sdt.h> is not there: install systemtap-sdt-dev")
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", program, SOURCE], check=True)
    return program


@pytest.fixture
def target(main_loop: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [main_loop, str(PASSES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def times_of(target: subprocess.Popen[str]) -> list[tuple[int, ...]]:
    assert target.stdout is not None
    lines = [target.stdout.readline() for _ in range(PASSES)]
    return [tuple(map(int, line.split())) for line in lines]


def go(target: subprocess.Popen[str]) -> None:
    assert target.stdin is not None
    target.stdin.write("\n")
    target.stdin.flush()


def test_each_pass_and_wait_is_as_long_as_the_loop_itself_says(
    target: subprocess.Popen[str],
) -> None:
    tool = Tool(target.pid, "--count", str(PASSES))
    go(target)
    output = tool.output()
    times = times_of(target)
    runs, waits = durations_ns(output, "bridge run"), durations_ns(output, "poll_block")
    assert (len(runs), len(waits)) == (PASSES, PASSES - 1)
    for measured, (before, started, ended, after) in zip(runs, times, strict=True):
        assert ended - started <= measured <= after - before
    for measured, (this, following) in zip(waits, pairwise(times), strict=True):
        assert following[0] - this[3] <= measured <= following[1] - this[2]
    assert f"{PASSES} passes in " in output


def test_quiet_prints_the_summary_alone_and_ctrl_c_ends_it(target: subprocess.Popen[str]) -> None:
    tool = Tool(target.pid, "--quiet")
    go(target)
    times_of(target)
    tool.interrupt()
    output = tool.output()
    assert not LINE.search(output)
    assert f"{PASSES} passes in " in output
    # Linear: passes of less than a millisecond are one bucket.
    assert "@bridge_run_time:\n[0, 1000) " in output


def test_log2_has_buckets_of_powers_of_two(target: subprocess.Popen[str]) -> None:
    tool = Tool(target.pid, "--quiet", "--log2", "--count", str(PASSES))
    go(target)
    # Every wait is of 500 microseconds and more.
    waits = tool.output().partition("@poll_block_wait_time:\n")[2].splitlines()
    assert waits[0].startswith("[512, 1024) ") or waits[0].startswith("[1024, 2048) ")


def test_the_end_of_the_process_ends_it(target: subprocess.Popen[str]) -> None:
    tool = Tool(target.pid, "--quiet")
    go(target)
    times_of(target)
    target.kill()
    assert f"{PASSES} passes in " in tool.output()


def test_a_process_without_the_probes_is_one_line(root_user: None) -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        command = [sys.executable, "-m", "kernel_delay", "bridge-loop", "-p", str(sleeper.pid)]
        done = subprocess.run(command, capture_output=True, text=True)
        sleeper.kill()
    assert done.returncode == 66  # EX_NOINPUT
    assert done.stderr.count("\n") == 1
    assert "no USDT probe u:main:run_start" in done.stderr


def test_open_vswitch_passes_under_traffic(root_user: None, usdt_binaries: Binaries) -> None:
    with Instance(usdt_binaries) as ovs, Traffic(ovs, rate=100, seconds=60.0):
        output = Tool(ovs.pid, "--time", "1").output()
    runs, waits = durations_ns(output, "bridge run"), durations_ns(output, "poll_block")
    assert runs
    assert abs(len(runs) - len(waits)) <= 1
    # They follow each other without a gap, so together they are all of the time.
    clock = re.search(rf"{len(runs)} passes in (\S+),", output)
    assert clock is not None
    assert sum(runs) + sum(waits) == clock_ns(clock[1])


def test_an_open_vswitch_without_probes_says_what_it_takes(ovs: Instance) -> None:
    command = [sys.executable, "-m", "kernel_delay", "bridge-loop", "-p", str(ovs.pid)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 66
    assert "it takes an OVS built with --enable-usdt-probes" in done.stderr
