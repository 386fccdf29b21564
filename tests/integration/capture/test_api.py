"""`import kernel_delay` on a real process; and each example of docs/reference/api.md."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
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
    sample = kernel_delay.capture(pid, seconds=0.2)
    assert isinstance(sample, kernel_delay.Sample)
    assert sample.target.pid == pid
    assert sample.window.duration_ns >= 200_000_000
    (thread,) = sample.threads
    calls = {call.name: call.count for call in thread.syscalls}
    assert calls["getppid"] > 1
    assert thread.time is not None
    assert sample.syscall_events is None


def test_single_calls_are_kept_where_asked_for(pid: int) -> None:
    sample = kernel_delay.capture(
        pid, seconds=0.2, accounting=False, syscall_events=True, shortest_ns=500_000, stacks="none"
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


def test_a_block_of_this_process_is_measured(measurable: None) -> None:
    with kernel_delay.measure() as measured:
        for _ in range(1_000):
            os.getppid()
    (main,) = (each for each in measured.sample.threads if each.tid == threading.get_native_id())
    assert {call.name: call.count for call in main.syscalls}["getppid"] == 1_000
    assert measured.sample.target.pid == os.getpid()


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


def test_the_examples_of_the_page_run(
    pid: int, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (project / "docs" / "reference" / "api.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 6
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
