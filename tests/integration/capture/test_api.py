"""`import kernel_delay` on a real process; and each example of docs/reference/api.md."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import kernel_delay
from tests import commands

TARGET = """
import os, time
print(flush=True)
while True:
    os.getppid()
    time.sleep(0.001)
"""


@pytest.fixture
def pid(measurable: None) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_capture_returns_a_sample_with_its_verdict(pid: int) -> None:
    sample = kernel_delay.capture(pid, seconds=1)
    assert isinstance(sample, kernel_delay.Sample)
    assert sample.target.pid == pid
    assert sample.window.duration_ns >= 1_000_000_000
    (thread,) = sample.threads
    calls = {call.name: call.count for call in thread.syscalls}
    assert calls["getppid"] > 1
    assert thread.time is not None
    assert sample.syscall_events is None


def test_single_calls_are_kept_where_asked_for(pid: int) -> None:
    sample = kernel_delay.capture(
        pid, seconds=1, accounting=False, syscall_events=True, shortest_ns=500_000, stacks="none"
    )
    events = sample.syscall_events
    assert events
    assert all(event.exit_ns - event.entry_ns >= 500_000 for event in events)
    assert sample.threads[0].time is None


def test_a_recording_from_python_is_one_of_the_command(pid: int, tmp_path: Path) -> None:
    path = tmp_path / "a.kdr"
    recording = kernel_delay.record(path, pid, seconds=0.1, samples=2, interval=0.05)
    assert recording.trailer.ended == "done"
    first, second = recording
    assert second.window.start_ns - first.window.stop_ns >= 50_000_000
    reported = commands.run("report", "--json", path)
    assert reported.returncode == 0, reported.stderr
    assert len(reported.stdout.splitlines()) == 2


def test_samples_are_measured_until_the_loop_is_left(pid: int) -> None:
    found = []
    for sample in kernel_delay.samples(pid, seconds=0.1):
        found.append(sample)
        if len(found) == 3:
            break
    starts = [sample.window.start_ns for sample in found]
    assert starts == sorted(set(starts))
    # Nothing is left attached: what was measured can be measured again.
    assert kernel_delay.capture(pid, seconds=0.1).threads


def test_several_processes_have_a_sample_each(measurable: None) -> None:
    with running_twice() as pids:
        found = list(kernel_delay.samples(pids, seconds=0.1, count=2))
        assert [sample.target.pid for sample in found] == sorted(pids) * 2
        by_name = list(kernel_delay.samples(comm="kd-api-twice", seconds=0.1, count=1))
        assert {sample.target.pid for sample in by_name} == set(pids)
        with pytest.raises(kernel_delay.KernelDelayError, match="selects 2 processes"):
            kernel_delay.capture(comm="kd-api-twice")


@contextmanager
def running_twice() -> Iterator[list[int]]:
    """Two processes of one name that sleep."""
    command = ["bash", "-c", "printf kd-api-twice >/proc/self/comm; echo; read -r"]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(2)
        ]
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        yield [process.pid for process in started]
        for process in started:
            process.communicate(b"\n")


def test_children_are_measured_with_their_parent(measurable: None) -> None:
    # A program in the background has no standard input of its own.
    command = ["bash", "-c", "exec 3<&0; cat <&3 & echo; wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = list(kernel_delay.samples(parent.pid, children=True, seconds=0.1, count=1))
        assert len(found) == 2
        parent.communicate(b"\n")


def test_single_calls_are_of_one_process(pid: int) -> None:
    with pytest.raises(ValueError, match="syscall_events are of one process"):
        kernel_delay.samples(pid, children=True, syscall_events=True)


def test_a_program_is_measured_to_its_end(
    measurable: None, capfd: pytest.CaptureFixture[str]
) -> None:
    script = "import os; print('hello', flush=True); [os.getppid() for _ in range(50)]; os._exit(3)"
    result = kernel_delay.run([sys.executable, "-c", script])
    assert result.status == 3
    assert result.sample.window.ended_by == "exit"
    calls = {call.name: call.count for thread in result.sample.threads for call in thread.syscalls}
    assert calls["getppid"] == 50
    assert capfd.readouterr().out == "hello\n"


def test_a_program_that_is_not_there_is_one_line(measurable: None) -> None:
    with pytest.raises(kernel_delay.KernelDelayError, match="can't run no-such") as error:
        kernel_delay.run(["no-such-program"])
    assert error.value.exit_code == 127


def test_threads_can_run_programs_at_once(measurable: None) -> None:
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(lambda _: kernel_delay.run(["sleep", "0.2"]), range(3)))
    assert [result.status for result in results] == [0, 0, 0]
    assert {result.sample.target.comm for result in results} == {"sleep"}


def test_a_long_round_is_yielded_when_it_is_over(measurable: None) -> None:
    loop = "import select, time\nwhile True: select.select([], [], [], 0.01); time.sleep(0.3)"
    with subprocess.Popen([sys.executable, "-c", loop]) as process:
        sample = next(iter(kernel_delay.watch(process.pid, threshold=0.2)))
        process.kill()
    assert sample.round is not None
    assert sample.window.duration_ns >= 300_000_000
    if not sample.lost.missed_events:
        assert any("clock_nanosleep" in finding.text for finding in sample.verdict)


def test_a_watch_ends_with_its_time(pid: int) -> None:
    assert list(kernel_delay.watch(pid, threshold=60, seconds=0.2)) == []


def test_chains_are_followed_where_asked_for(pid: int) -> None:
    sample = kernel_delay.capture(pid, seconds=1, chains=True)
    assert sample.threads[0].chain is not None


def test_a_block_of_this_process_is_measured(measurable: None) -> None:
    with kernel_delay.measure() as measured:
        for _ in range(1_000):
            os.getppid()
    (main,) = (each for each in measured.sample.threads if each.tid == threading.get_native_id())
    assert {call.name: call.count for call in main.syscalls}["getppid"] == 1_000
    assert measured.sample.target.pid == os.getpid()


def test_a_blocks_window_is_the_block(measurable: None) -> None:
    with kernel_delay.measure() as measured:
        begun_ns = time.monotonic_ns()
        time.sleep(0.05)
        ended_ns = time.monotonic_ns()
    window = measured.sample.window
    assert window.ended_by == "trigger"
    assert window.start_ns <= begun_ns < ended_ns <= window.stop_ns
    (main,) = (each for each in measured.sample.threads if each.tid == threading.get_native_id())
    # Nothing of what waits for the process that measures is in it. Another thread of this process
    # may have Python's lock as the sleep ends.
    # Of one that was too short to be looked at, or whose end was missed, the call is not known.
    known = [sleep for sleep in main.sleeps if sleep.syscall is not None]
    if not measured.sample.lost.missed_events:
        assert max(known, key=lambda sleep: sleep.ns).syscall == "clock_nanosleep"
    assert {sleep.syscall for sleep in known} <= {"clock_nanosleep", "futex"}
    assert "Measurement: <Sample of" in repr(measured)


def test_threads_measure_blocks_at_once(measurable: None) -> None:
    def measure(count: int) -> tuple[int, kernel_delay.Sample]:
        with kernel_delay.measure() as measured:
            for _ in range(count):
                os.getppid()
        return threading.get_native_id(), measured.sample

    counts = (100, 200, 300)
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(measure, counts))
    for count, (tid, sample) in zip(counts, results, strict=True):
        (own,) = (each for each in sample.threads if each.tid == tid)
        assert {call.name: call.count for call in own.syscalls}["getppid"] == count


def test_a_block_within_a_block_leaves_its_window_open(measurable: None) -> None:
    with kernel_delay.measure() as outer:
        with kernel_delay.measure() as inner:
            os.getppid()
        for _ in range(100):
            os.getppid()
    counts = [
        call.count
        for measured in (outer, inner)
        for thread in measured.sample.threads
        if thread.tid == threading.get_native_id()
        for call in thread.syscalls
        if call.name == "getppid"
    ]
    assert counts == [101, 1]
    assert outer.sample.window.start_ns < inner.sample.window.start_ns
    assert outer.sample.window.stop_ns > inner.sample.window.stop_ns


def test_a_block_may_end_in_another_thread(measurable: None) -> None:
    measured = kernel_delay.measure()
    measured.__enter__()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(measured.__exit__, None, None, None).result()
    assert measured.sample.window.ended_by == "interrupt"


def test_an_error_of_the_block_goes_on(measurable: None) -> None:
    measured = kernel_delay.measure()

    def fail() -> None:
        with measured:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert measured.sample.threads


def test_what_can_not_be_measured_is_one_line(tmp_path: Path, pid: int) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        with pytest.raises(kernel_delay.KernelDelayError, match=f"no process {ended.pid}"):
            kernel_delay.capture(ended.pid)
    with pytest.raises(kernel_delay.KernelDelayError, match="can't write"):
        kernel_delay.record(tmp_path / "none" / "a.kdr", pid)


@pytest.mark.long
def test_the_examples_of_the_page_run(
    pid: int, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (project / "docs" / "reference" / "api.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 10
    monkeypatch.chdir(tmp_path)
    for number, example in enumerate(examples):
        if "cut.kdr" in example:
            whole = Path("before.kdr").read_bytes()
            Path("cut.kdr").write_bytes(whole[: len(whole) - 10])
        script = f"pid = {pid}\n{example}"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ}
        )
        assert done.returncode == 0, f"example {number}: {done.stderr}"
        assert done.stdout
