"""Calls that ended by their time-out: polls without an event, and waits for a lock in vain."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import KERNEL_DELAY

pytestmark = pytest.mark.usefixtures("measurable")

COUNT, EVENTS, LENGTH_MS = 10, 1000, 20

# It polls and waits for its lock in vain, and then polls what has an event at once.
WORK = f"""
import os, select, threading
reads, writes = os.pipe()
poll = select.poll()
poll.register(reads, select.POLLIN)
lock = threading.Lock()
lock.acquire()
for _ in range({COUNT}):
    poll.poll({LENGTH_MS})
    lock.acquire(timeout={LENGTH_MS / 1000})
os.write(writes, b"x")
for _ in range({EVENTS}):
    poll.poll({LENGTH_MS})
"""


def test_calls_that_timed_out_are_counted(tmp_path: Path) -> None:
    output = tmp_path / "sample.json"
    program = (sys.executable, "-c", WORK)
    command = [*KERNEL_DELAY, "capture", "--json", os.fspath(output), "--", *program]
    subprocess.run(command, check=True, capture_output=True)

    sample = json.loads(output.read_text())
    (thread,) = sample["threads"]
    missed = sample["lost"]["missed_events"]
    for names in ({"poll", "ppoll"}, {"futex"}):
        (call,) = (call for call in thread["syscalls"] if call["name"] in names)
        assert COUNT - missed <= call["timed_out"] <= COUNT
    (poll,) = (call for call in thread["syscalls"] if call["name"] in {"poll", "ppoll"})
    assert COUNT + EVENTS - missed <= poll["count"] <= COUNT + EVENTS


@pytest.mark.usefixtures("earlier_calls")
def test_polls_that_time_out_are_said_to_wait_in_vain() -> None:
    begin = "import select; p = select.poll(); p.register(0); print(flush=True)"
    work = f"{begin}\nwhile True: p.poll(100)"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", work], stdin=pipe, stdout=pipe) as target:
        assert target.stdout is not None
        # A busy machine may have it start in the window else.
        target.stdout.readline()
        command = [*KERNEL_DELAY, "-p", str(target.pid), "--sample-time", "1"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        target.kill()
    # On a busy machine it may be a remark, behind who had the CPU.
    assert "Its polls timed out: it waited in vain for events on the pipe with" in done.stdout
