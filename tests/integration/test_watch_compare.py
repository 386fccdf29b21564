"""`kernel-delay compare` of records that `watch` wrote of rounds which knew what they did."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.commands import KERNEL_DELAY
from tests.watching.watch import watch_of

MS = 1_000_000
ROUNDS = 12
CPU_MS = 20
SIDES, SLEPT_MS = ("before", "after"), (60, 120)

# A round a line: so much CPU time, and such a sleep. time.sleep() says until when, and so the call
# is shorter where the thread lost its CPU before it. The CPU time is read seldom: each time is a
# system call, of which others that are traced meanwhile change the length.
LOOP = """
import ctypes, select, sys, time
usleep = ctypes.CDLL(None).usleep
poll = select.poll()
poll.register(sys.stdin)
while poll.poll():
    line = sys.stdin.readline()
    if not line:
        break
    cpu_ms, slept_ms = map(int, line.split())
    end_ns = time.thread_time_ns() + cpu_ms * 1_000_000
    while time.thread_time_ns() < end_ns:
        for _ in range(5000):
            pass
    usleep(slept_ms * 1000)
    print("done", flush=True)
"""


def compared(*sides: str) -> dict[str, dict[str, Any]]:
    """The figures by their names."""
    command = [*KERNEL_DELAY, "compare", "--json", *sides]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    changes = msgspec.json.decode(output)["comparison"]["changes"]
    return {change["name"]: change for change in changes}


def test_what_rounds_have_more_of_is_named(root_user: None, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    command, pipe = [sys.executable, "-u", "-c", LOOP], subprocess.PIPE
    with subprocess.Popen(command, text=True, bufsize=1, stdin=pipe, stdout=pipe) as loop:
        lines, answers = loop.stdin, loop.stdout
        assert lines is not None
        assert answers is not None

        def go(cpu_ms: int, slept_ms: int) -> None:
            print(cpu_ms, slept_ms, file=lines)
            assert answers.readline() == "done\n"

        with watch_of(loop.pid, folder, "--threshold", "0.05", "--calls") as watching:
            # Before Linux 5.15 the round that is open at the beginning is not known.
            go(0, 0)
            for slept_ms in SLEPT_MS:
                for _ in range(ROUNDS):
                    go(CPU_MS, slept_ms)
            watching.wait_for_recordings(2 * ROUNDS)
            watching.end()
        lines.close()
    # On an emulated CPU the first round can be a long one too.
    records = watching.recordings()
    first = len(records) - 2 * ROUNDS
    assert first in (0, 1)

    sides = (f"{folder}@{first + at * ROUNDS + 1}-{first + (at + 1) * ROUNDS}" for at in (0, 1))
    changes = compared(*sides)
    for name in ("blocked.round", "blocked/clock.round"):
        assert changes[name]["kind"] == "more", name
    assert changes["user.round"]["kind"] in ("same", "unclear")
    # One whose entry was missed is not counted.
    assert (ROUNDS - 1) / ROUNDS <= changes["clock_nanosleep.count"]["before"] <= 1
    # Of two rounds the same is seen, and not claimed.
    single = compared(str(records[first]), str(records[-1]))
    assert {change["kind"] for change in single.values()} == {"unclear"}
    for found in (changes, single):
        call = found["clock_nanosleep.round"]
        assert [call[side] >= ms * MS for side, ms in zip(SIDES, SLEPT_MS, strict=True)] == [
            True
        ] * 2
