"""`kernel-delay watch` beside what Open vSwitch itself says of its long rounds."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from kernel_delay.analysis.rounds import ran_functions
from kernel_delay.model import Sample
from kernel_delay.ovs.log import parse_line
from kernel_delay.recording.reader import UntilDamage, open_recording
from lab.binaries import Binaries
from tests.commands import KERNEL_DELAY
from tests.integration.long_rounds import LongRounds, ovs_with_long_rounds
from tests.workload import Workload, compile_workload, wait_until

MAIN = "ovs-vswitchd"
MS = 1_000_000
LONG_MS = 1050

# How far the lengths may be apart: OVS has its own of two clocks in ms.
TOLERANCE_MS = 2


class Watching(NamedTuple):
    """A running `kernel-delay watch`, and what it writes."""

    process: "subprocess.Popen[bytes]"
    folder: Path
    output: IO[bytes]

    def recordings(self) -> list[Path]:
        return sorted(self.folder.glob("*.kdr"))

    def end(self) -> str:
        """End it as Ctrl-C does; what it printed."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0
        self.output.seek(0)
        return self.output.read().decode()


def samples_in(path: Path) -> list[Sample]:
    with open_recording(os.fspath(path)) as recording:
        reading: Any = UntilDamage(recording)
        found = [record for record in reading if isinstance(record, Sample)]
        assert reading.damage is None
        return found


@pytest.fixture(scope="module")
def slow_ovs(root_user: None, ovs_binaries: Binaries) -> Iterator[LongRounds]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ovs_with_long_rounds(ovs_binaries, Path(folder)) as rounds,
    ):
        rounds.ovs.add_bridge("brlong")
        yield rounds


@pytest.fixture
def watching(slow_ovs: LongRounds, tmp_path: Path) -> Iterator[Watching]:
    command = [*KERNEL_DELAY, "watch", "--pid", str(slow_ovs.ovs.pid), "--min-gap", "0"]
    folder = tmp_path / "recordings"
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([*command, "-o", folder], stdout=output, stderr=errors)

        def is_attached() -> bool:
            assert process.poll() is None
            errors.seek(0)
            return b"watching" in errors.read()

        wait_until(is_attached, "the watch")
        yield Watching(process, folder, output)
        if process.poll() is None:
            process.kill()
            process.wait()


def continue_when_stopped(pid: int) -> None:
    """Send SIGCONT a while after the process was stopped."""
    stat = Path(f"/proc/{pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
    time.sleep(LONG_MS / 1000)
    os.kill(pid, signal.SIGCONT)


def test_each_line_of_the_log_has_one_record_and_none_is_without(
    slow_ovs: LongRounds, watching: Watching
) -> None:
    before = len(slow_ovs.logged())
    causes = ["compute", "sleep", "lock", "write", "stop"]
    for cause in causes:
        if cause == "stop":
            waker = threading.Thread(target=continue_when_stopped, args=[slow_ovs.ovs.pid])
            waker.start()
        slow_ovs.make(MAIN, cause, LONG_MS)
    waker.join()
    slow_ovs.ovs.appctl("version")
    wait_until(lambda: len(watching.recordings()) >= len(causes), "the recordings")
    text = watching.end()

    lines = [parse_line(line) for line in slow_ovs.logged()[before:]]
    samples = [sample for path in watching.recordings() for sample in samples_in(path)]
    assert len(lines) == len(samples) >= len(causes)
    for line, sample in zip(lines, samples, strict=True):
        assert line is not None
        assert sample.round is not None
        assert sample.round.log == line
        assert sample.round.tid == slow_ovs.ovs.pid
        assert line.thread == ""
        # Between the poll and OVS's own look at its clock it may be kept from the CPU.
        (thread,) = sample.threads
        assert thread.time is not None
        kept_ms = thread.time.ready_ns / MS
        assert abs(sample.window.duration_ns / MS - line.length_ms) <= TOLERANCE_MS + kept_ms
    assert text.count("[log: ") == len(samples)
    counted = slow_ovs.long_poll_intervals()
    assert counted in (None, before + len(lines))


def test_a_record_says_what_kept_the_thread(slow_ovs: LongRounds, watching: Watching) -> None:
    slow_ovs.make(MAIN, "lock", LONG_MS)
    slow_ovs.make(MAIN, "write", LONG_MS)
    wait_until(lambda: len(watching.recordings()) >= 2, "the recordings")
    watching.end()

    lock, write = (sample for path in watching.recordings() for sample in samples_in(path))
    (thread,) = lock.threads
    assert thread.time is not None
    assert thread.time.blocked_ns >= 0.9 * LONG_MS * MS
    assert [wait.name for wait in thread.lock_waits] == ["lock_holder"]
    (thread,) = write.threads
    assert thread.sleeps[0].syscall == "write"
    assert [waker.comm for waker in thread.sleeps[0].wakers] == ["slow_reader"]
    (event,) = write.syscall_events or ()
    assert event.name == "write"
    assert event.user_stack is not None
    names = [frame.name for frame in write.stacks[event.user_stack]]
    assert "getrusage" in names


def test_what_a_thread_computed_has_the_function_that_did(
    slow_ovs: LongRounds, watching: Watching
) -> None:
    slow_ovs.make(MAIN, "compute", LONG_MS)
    wait_until(lambda: bool(watching.recordings()), "the recording")
    text = watching.end()

    (sample,) = samples_in(watching.recordings()[0])
    assert sample.round is not None
    assert sample.round.profile_start_ns is not None
    assert sample.round.profile_start_ns > sample.window.start_ns
    assert ran_functions(sample)[0].name == "kd_compute"
    assert "mostly in kd_compute" in text or "no CPU" in text


def test_a_report_of_a_record_says_whose_round_it_was(
    slow_ovs: LongRounds, watching: Watching
) -> None:
    slow_ovs.make(MAIN, "sleep", LONG_MS)
    wait_until(lambda: bool(watching.recordings()), "the recording")
    watching.end()

    (path,) = watching.recordings()
    command = [*KERNEL_DELAY, "report", os.fspath(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"of {MAIN} ({slow_ovs.ovs.pid}), from a poll's return to the next poll" in text
    assert "Open vSwitch logged it: " in text
    assert "clock_nanosleep" in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_sigusr1_tells_what_each_thread_does(slow_ovs: LongRounds, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    command = [*KERNEL_DELAY, "watch", "--pid", str(slow_ovs.ovs.pid)]
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            wait_until(lambda: "watching" in errors.read_text(), "the watch")
            process.send_signal(signal.SIGUSR1)
            wait_until(lambda: f"{MAIN} ({slow_ovs.ovs.pid}): poll" in errors.read_text())
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0


def test_it_follows_the_process_that_takes_the_place_of_one(tmp_path: Path) -> None:
    pid_file, errors = tmp_path / "pid", tmp_path / "errors"
    program = compile_workload("long_work")
    command = [*KERNEL_DELAY, "watch", "--follow", "--no-stacks", "--pid-file", os.fspath(pid_file)]
    first = Workload([program, 1])
    second = Workload([program, 1])
    pid_file.write_text(f"{first.pid}\n")
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            wait_until(lambda: f"watching long_work ({first.pid})" in errors.read_text())
            first.kill()
            wait_until(lambda: "waiting for a process in" in errors.read_text())
            pid_file.write_text(f"{second.pid}\n")
            wait_until(lambda: f"watching long_work ({second.pid})" in errors.read_text())
        finally:
            process.send_signal(signal.SIGINT)
            status = process.wait(60)
            second.kill()
    assert status == 0
