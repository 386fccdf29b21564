"""Ctrl-C, SIGTERM and SIGHUP at any moment: an end, its status, and no traceback."""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.needs import needed
from tests.requirements.btf import BPFTOOL
from tests.workload import wait_until

# What takes longer hangs; the tool itself takes less than a second.
LIMIT_S = 200.0

# Of all signals together, spread over the length of a run.
MOMENTS = 9

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

KERNEL_DELAY = Path(sys.executable).with_name("kernel-delay")

# Calls from several places, on stacks that are to be named.
TARGET = """
import os, threading, time
def deep(n):
    if n: deep(n - 1)
    else: os.stat("/"); time.sleep(0.0001); os.getppid()
def work(n):
    while True: deep(n)
for n in range(6): threading.Thread(target=work, args=(n * 7,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""

COMMANDS: dict[str, Sequence[str]] = {
    "capture": ("capture", "--sample-time", "0.2", "--sample-count", "2", "--json"),
    "stacks": ("capture", "--sample-time", "0.2", "-s", "--source", "--json"),
    "probes": ("probes", "--usdt", "--functions", "*"),
    "check": ("check",),
}


class Outcome(NamedTuple):
    status: int
    stdout: bytes
    stderr: bytes


@pytest.fixture(scope="module")
def target() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def run(words: Sequence[str], signals: Sequence[tuple[float, signal.Signals]] = ()) -> Outcome:
    """Run the command; send it each signal when it has run for so many seconds."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([KERNEL_DELAY, *words], stdout=pipe, stderr=pipe)
    start = time.monotonic()
    try:
        for moment, number in signals:
            time.sleep(max(0.0, start + moment - time.monotonic()))
            process.send_signal(number)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    return Outcome(process.returncode, stdout, stderr)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="BPF programs need root")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment(name: str, target: int) -> None:
    words = [*COMMANDS[name], "-p", str(target)]
    start = time.monotonic()
    assert run(words).status == 0
    length = time.monotonic() - start
    moments = random.Random(name)
    steps = list(range(MOMENTS))
    moments.shuffle(steps)
    for step, number in zip(steps, itertools.cycle(ENDS)):
        moment = (step + moments.random()) / MOMENTS * 1.1 * length
        twice = [(moment, number), (moments.uniform(moment, 1.1 * length), number)]
        outcome = run(words, twice[: moments.randint(1, 2)])
        # -number: before the very first of our instructions; a shell says the same.
        assert outcome.status in (0, 128 + number, -number), (moment, outcome.stderr)
        assert b"Traceback" not in outcome.stderr
        assert b"rror" not in outcome.stderr
        if outcome.status == 0 and "--json" in words:
            samples = [json.loads(line) for line in outcome.stdout.splitlines()]
            assert samples
            ends = {sample["window"]["ended_by"] for sample in samples}
            assert ends <= {"time", "interrupt"}


def programs_of(pid: int) -> set[int]:
    """The ids of the BPF programs that a process has open: proc_pid_fdinfo(5)."""
    found = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found |= {int(number) for number in re.findall(r"prog_id:\s*(\d+)", info.read_text())}
    return found


def is_loaded(program: int) -> bool:
    shown = [BPFTOOL, "prog", "show", "id", str(program)]
    return subprocess.run(shown, capture_output=True).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="BPF programs need root")
def test_nothing_is_left_in_the_kernel_after_a_kill(target: int) -> None:
    needed(BPFTOOL)
    options = ["capture", "-p", str(target), "--sample-time", "600"]
    process = subprocess.Popen([KERNEL_DELAY, *options], stdout=subprocess.DEVNULL)
    programs = set[int]()
    try:
        # More than what is tried before the first is attached.
        while len(programs) < 5:
            assert process.poll() is None
            programs = programs_of(process.pid)
        assert all(map(is_loaded, programs))
    finally:
        process.kill()
        process.wait()
    # The kernel frees them a while after the last descriptor is closed.
    wait_until(lambda: not any(map(is_loaded, programs)), "the end of all programs")
    assert not any(Path("/sys/fs/bpf").glob("**/*kernel*delay*"))


@pytest.mark.long
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_python_starts(number: signal.Signals) -> None:
    """Python itself would end in a traceback, or of the signal without a word of ours."""
    statuses = set()
    for step in range(40):
        outcome = run(["--help"], [(step * 0.0005, number)])
        assert b"Traceback" not in outcome.stderr
        assert b"rror" not in outcome.stderr
        statuses.add(outcome.status)
    assert statuses <= {0, 128 + number, -number}
    assert 128 + number in statuses
