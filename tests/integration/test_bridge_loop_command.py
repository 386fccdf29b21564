"""`kernel-delay bridge-loop`, on a loop that knows its own times and on Open vSwitch."""

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from lab.binaries import Binaries
from lab.instance import Instance
from lab.traffic import Traffic
from tests import commands
from tests.cache import built
from tests.needs import need_sdt_header
from tests.workload import HANGS_S, LASTS_S, sleeping

SOURCE = Path(__file__).parents[1] / "workloads" / "main_loop.c"
LINE = re.compile(r"- \[(\d+)@(\S+)\] (bridge run loop|poll_block\(\) wait) time ?: (\S+)")
PASSES = 200


class Tool:
    """The command, which runs until it is done or told to stop."""

    def __init__(self, pid: int, *options: str) -> None:
        self._stdout = tempfile.TemporaryFile("w+")  # noqa: SIM115 - output() closes it
        reader, writer = os.pipe()
        self._stderr = open(reader)  # noqa: SIM115 - output() closes it
        self._process = commands.start(
            *("bridge-loop", "--pid", pid, *options), stdout=self._stdout.fileno(), stderr=writer
        )
        os.close(writer)
        self.first_line = self._stderr.readline()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def output(self) -> str:
        with self._stdout, self._stderr:
            status = self._process.wait(timeout=HANGS_S)
            assert status == 0, self.first_line + self._stderr.read()
            self._stdout.seek(0)
            return self._stdout.read()


def durations_ns(output: str, kind: str) -> list[int]:
    found = [match for line in output.splitlines() if (match := LINE.match(line))]
    return [clock_ns(match[4]) for match in found if match[3].startswith(kind)]


def clock_ns(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, fraction = seconds.split(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**9 + int(fraction)


@pytest.fixture(scope="module")
def main_loop(root_user: None) -> Path:
    need_sdt_header()

    def make(folder: Path) -> None:
        flags = ("-O2", "-Wall", "-Werror")
        subprocess.run(["gcc", *flags, "-o", folder / "main_loop", SOURCE], check=True)

    return built("main_loop", make, SOURCE) / "main_loop"


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


def test_pass_and_wait_lengths_match_those_of_the_loop(target: subprocess.Popen[str]) -> None:
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


def test_quiet_prints_only_the_summary_after_ctrl_c(target: subprocess.Popen[str]) -> None:
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
    first = tool.output().partition("@poll_block_wait_time:\n")[2].splitlines()[0]
    found = re.match(r"\[(\d+), (\d+)\) ", first)
    assert found
    low_us, high_us = map(int, found.groups())
    assert high_us == 2 * low_us
    # The shortest wait is there, by the loop's own times, which are around the probes and between.
    pairs = list(pairwise(times_of(target)))
    assert low_us <= min(following[1] - this[2] for this, following in pairs) / 1e3
    assert min(following[0] - this[3] for this, following in pairs) // 1000 < high_us


def test_the_end_of_the_process_ends_it(target: subprocess.Popen[str]) -> None:
    tool = Tool(target.pid, "--quiet")
    go(target)
    times_of(target)
    target.kill()
    assert f"{PASSES} passes in " in tool.output()


@pytest.mark.parametrize("options", [(), ("--quiet", "--log2"), ("--json",)])
def test_a_report_from_a_recording_is_the_same(
    target: subprocess.Popen[str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "loop.kdr"
    tool = Tool(target.pid, "--count", str(PASSES), "-o", str(path), *options)
    go(target)
    live = tool.output()
    reported = commands.run("report", path, *options)
    assert (reported.returncode, reported.stderr) == (0, "")
    assert reported.stdout == live
    if options == ("--json",):
        kinds = [json.loads(line)["kind"] for line in live.splitlines()]
        assert (kinds.count("run"), kinds.count("wait")) == (PASSES, PASSES - 1)
    refused = commands.run("report", path, "--sets")
    assert refused.returncode == 64  # EX_USAGE
    assert "--sets is for recordings of upcall-cost" in refused.stderr


def test_a_process_without_the_probes_is_one_line(root_user: None) -> None:
    with sleeping() as sleeper:
        done = commands.run("bridge-loop", "-p", sleeper.pid)
    assert done.returncode == 66  # EX_NOINPUT
    assert done.stderr.count("\n") == 1
    assert "no USDT probe u:main:run_start" in done.stderr
    assert "from 2.17 on, built with --enable-usdt-probes" in done.stderr


def test_open_vswitch_passes_under_traffic(root_user: None, usdt_binaries: Binaries) -> None:
    with Instance(usdt_binaries) as ovs, Traffic(ovs, rate=100, seconds=LASTS_S):
        output = Tool(ovs.pid, "--time", "1").output()
    runs, waits = durations_ns(output, "bridge run"), durations_ns(output, "poll_block")
    assert runs
    assert abs(len(runs) - len(waits)) <= 1
    # They follow each other without a gap, so together they are all of the time; unless the
    # kernel did not run the program at some of them, which is told.
    clock = re.search(rf"{len(runs)} passes in (\S+),", output)
    assert clock is not None
    gaps_ns = clock_ns(clock[1]) - sum(runs) - sum(waits)
    assert gaps_ns > 0 if "out of turn: some were missed" in output else gaps_ns == 0


def test_an_open_vswitch_without_probes_says_what_it_takes(ovs: Instance) -> None:
    done = commands.run("bridge-loop", "-p", ovs.pid)
    assert done.returncode == 66
    assert "it takes an OVS built with --enable-usdt-probes" in done.stderr
    assert "install openvswitch-switch-dbgsym" in done.stderr
    assert "or use 'kernel-delay watch'" in done.stderr
