"""`kernel-delay watch` where it is killed, has no disk, or has everything to record."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import astuple

from kernel_delay.model import Sample
from tests.system_calls import syscall_number
from tests.watching.watch import Watching, samples_in, watch_of
from tests.workload import HANGS_S, Workload, compile_workload, wait_until, wait_until_it_slept

LONG_MS = 30
THRESHOLD = ("--threshold", "0.02")


@pytest.fixture
def looping(root_user: None) -> Iterator[Workload]:
    """Two threads that poll without a pause, and are slow once in a second each."""
    workload = Workload([compile_workload("round_loop", "-lpthread"), 2, LONG_MS])
    yield workload
    workload.kill()


def are_whole(watching: Watching) -> bool:
    """Whether each recording can be read to its end."""
    return all(len(samples_in(path)) == 1 for path in watching.recordings())


@pytest.mark.long
def test_a_kill_leaves_nothing_torn(looping: Workload, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    with watch_of(looping.pid, folder, "--threshold", "0") as watching:
        watching.wait_for_recordings(10)
        watching.process.kill()
        watching.process.wait()
    before = watching.recordings()
    assert are_whole(watching)
    (folder / "round-20260101T000000.000000Z-left-1.kdr.part").write_bytes(b"half")
    with watch_of(looping.pid, folder, *THRESHOLD) as watching:
        wait_until(lambda: len(watching.recordings()) > len(before), "one more")
        watching.end()
    assert not list(folder.glob("*.part"))
    assert are_whole(watching)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.long
def test_a_full_disk_is_said_and_leaves_nothing_torn(looping: Workload, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as folder,
        watch_of(looping.pid, folder, *THRESHOLD) as watching,
    ):
        wait_until(lambda: "without, until it can be written" in watching.said(), "the full disk")
        full = watching.recordings()
        assert are_whole(watching)
        for path in full:
            path.unlink()
        wait_until(lambda: bool(set(watching.recordings()) - set(full)), "one with room again")
        text = watching.end(os.EX_IOERR)
        assert are_whole(watching)
        assert not list(folder.glob("*.part"))
    assert " could not be written" in text


@pytest.mark.long
def test_rounds_that_cannot_all_be_recorded_are_counted(looping: Workload, tmp_path: Path) -> None:
    most = 20
    options = ("--threshold", "0", "--max-files", str(most))
    with watch_of(looping.pid, tmp_path / "recordings", *options) as watching:
        seen = 0

        def has_seen_enough() -> bool:
            nonlocal seen
            seen = max(seen, len(watching.recordings()))
            return seen >= most and len(watching.lines()) > 100

        wait_until(has_seen_enough, "more records than are kept")
        assert seen <= most + 1
        text = watching.end()
    assert "no room for" in text or "were not recorded any more" in text
    assert len(watching.recordings()) == most
    assert are_whole(watching)


# It has a round that lasts.
HANGING = """
import select, time
print("ready", flush=True)
input()
select.poll().poll(1)
print("hangs", flush=True)
time.sleep(3600)
"""


def test_round_still_open_at_the_end_is_reported(root_user: None, tmp_path: Path) -> None:
    workload = Workload([sys.executable, "-c", HANGING])
    try:
        with watch_of(workload.pid, tmp_path / "recordings", *THRESHOLD) as watching:
            workload.send()
            workload.line()
            time.sleep(LONG_MS / 1000)
            watching.end()
            said = watching.said()
    finally:
        workload.kill()
    assert re.search(rf" \({workload.pid}\): a round has been open for .* no record", said)


def cut_short(folder: Path) -> tuple[int, Sample]:
    """Kill a program in a round that lasts; return its PID and what was recorded of the round."""
    workload = Workload([sys.executable, "-c", HANGING])
    try:
        with watch_of(workload.pid, folder, *THRESHOLD) as watching:
            workload.send()
            workload.line()
            call = Path(f"/proc/{workload.pid}/syscall")
            wait_until(
                lambda: call.read_text().startswith(f"{syscall_number('clock_nanosleep')} "),
                "its sleep",
            )
            time.sleep(LONG_MS / 1000)
            workload.process.kill()
            workload.process.wait()
            assert watching.process.wait(HANGS_S) == 0
            assert " has no record" not in watching.said()
    finally:
        workload.kill()
    (sample,) = samples_in(watching.recordings()[-1])
    return workload.pid, sample


def test_round_cut_short_by_a_kill_has_a_record(root_user: None, tmp_path: Path) -> None:
    """Of a program that hangs, that is what it ends with."""
    found: list[tuple[int, Sample]] = []

    def is_seen() -> bool:
        # That it fell asleep may be missed.
        found.append(cut_short(tmp_path / f"recordings-{len(found)}"))
        sample = found[-1][1]
        return bool(sample.threads[0].sleeps) or not sample.lost.missed_events

    wait_until(is_seen, "a round of which nothing was missed")
    pid, sample = found[-1]
    (thread,) = sample.threads
    assert sample.window.ended_by == "exit"
    assert sample.window.duration_ns >= LONG_MS * 1_000_000
    assert thread.tid == pid
    assert thread.time is not None
    assert sum(astuple(thread.time)) == sample.window.duration_ns
    assert any(sleep.syscall == "clock_nanosleep" for sleep in thread.sleeps)
    assert thread.task_times is not None


def test_sum_of_an_exited_process_includes_its_last_thread(root_user: None, tmp_path: Path) -> None:
    """The process is gone a moment before its last thread leaves its CPU."""
    workload = Workload([compile_workload("round_loop", "-lpthread"), 1, LONG_MS])
    try:
        with watch_of(workload.pid, tmp_path / "recordings", *THRESHOLD) as watching:
            watching.wait_for_recordings()
            workload.send()
            workload.line()
            # So that it is collected, and gone.
            workload.process.wait()
            assert watching.process.wait(HANGS_S) == 0
            lines = watching.lines()
    finally:
        workload.kill()
    assert any(line.split()[:2] == ["round_loop", "ended"] for line in lines)


POLLS = 20
POLLING = """
import select
print("ready", flush=True)
while True:
    select.poll().poll(10)
"""


def test_ended_thread_has_one_row_and_no_open_round(root_user: None, tmp_path: Path) -> None:
    """It is dumped as long as it is a zombie, which its parent, this process, decides."""
    workload = Workload([sys.executable, "-c", POLLING])
    try:
        with watch_of(workload.pid, tmp_path / "recordings", *THRESHOLD) as watching:
            # On a busy machine it may have no CPU for a while.
            wait_until_it_slept(workload.pid, POLLS, "its polls")
            workload.process.kill()
            assert watching.process.wait(HANGS_S) == 0
            lines, said = watching.lines(), watching.said()
    finally:
        workload.kill()
    rows = [line.split() for line in lines if line.startswith("python")]
    assert [row[1] for row in rows] == ["ended"]
    assert "a round is open" not in said


def test_a_target_that_is_killed_ends_it(looping: Workload, tmp_path: Path) -> None:
    with watch_of(looping.pid, tmp_path / "recordings", *THRESHOLD) as watching:
        watching.wait_for_recordings()
        os.kill(looping.pid, signal.SIGKILL)
        assert watching.process.wait(HANGS_S) == 0
        assert f"process {looping.pid} exited" in watching.said()
    assert are_whole(watching)
