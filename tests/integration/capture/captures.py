"""kernel-delay as its user runs it: a process that measures another one."""

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from msgspec.structs import astuple

from kernel_delay.model import Sample, Thread
from tests import commands
from tests.integration.capture.workload import Workload
from tests.system_calls import syscall_number
from tests.workload import HANGS_S, LASTS_S, wait_until, youngest_descendant

# The command waits for the window's end in poll(2), which some architectures
# have as ppoll(2) only; before, it polls nothing.
WAITS = {str(syscall_number(name)) for name in ("poll", "ppoll")}

# Longer than any test: such a window is ended by SIGINT.
UNTIL_ENDED_S = str(LASTS_S)


class Capture:
    """A running `kernel-delay capture --json -`."""

    def __init__(
        self,
        pid: int,
        sample_time_s: str,
        options: tuple[str, ...] = (),
        within: tuple[str, ...] = (),
    ) -> None:
        """Start it; `within` is a command that runs it as itself or as its child."""
        arguments = ("--pid", str(pid), "--sample-time", sample_time_s, "--json", *options)
        self._stdout = tempfile.TemporaryFile()  # noqa: SIM115 - kill() closes it
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - kill() closes it
        self._process = commands.start(
            *arguments, stdout=self._stdout.fileno(), stderr=self._stderr.fileno(), within=within
        )
        self.pid = self._process.pid
        self._within = within

    def wait_until_open(self) -> None:
        """Wait until the (first) window is open."""
        wait_until(self._is_open)

    def _is_open(self) -> bool:
        if self._process.poll() is not None:
            pytest.fail(f"kernel-delay exited: {_content(self._stderr).decode()}")
        if self._within:
            self.pid = youngest_descendant(self._process.pid)
        try:
            return Path(f"/proc/{self.pid}/syscall").read_text().split()[0] in WAITS
        except OSError:  # it exits just now
            return False

    def end(self) -> Sample:
        """End the window now, as Ctrl-C does, and return its Sample."""
        os.kill(self.pid, signal.SIGINT)
        return self.sample()

    def sample(self) -> Sample:
        """Return the Sample of a capture of one."""
        (sample,) = self.samples()
        return sample

    def samples(self) -> list[Sample]:
        """Return all Samples, once the command has ended."""
        status = self._process.wait(HANGS_S * 5)
        assert status == 0, _content(self._stderr).decode()
        decode: Any = msgspec.json.Decoder(Sample).decode
        return [decode(line) for line in _content(self._stdout).splitlines()]

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._stdout.close()
        self._stderr.close()


def _content(file: IO[bytes]) -> bytes:
    # To seek would move where a process writes that has the same open file.
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


StartCapture = Callable[..., Capture]
"""Starts a capture, with the arguments of Capture but the sample time not needed."""

Measure = Callable[[Workload], tuple[Sample, dict[str, Any]]]
"""Has a workload act within a window; returns the Sample and the workload's answer."""


def thread(sample: Sample, tid: int) -> Thread:
    """The Sample's only thread of that id."""
    (found,) = (thread for thread in sample.threads if thread.tid == tid)
    return found


def calls(measured: Thread) -> dict[int, int]:
    """How often the thread made each syscall within the window, by number."""
    return {stats.number: stats.count for stats in measured.syscalls if stats.count}


def check_sums(sample: Sample) -> None:
    """Each thread's time is the window, or as many as it stands for."""
    for measured in sample.threads:
        assert measured.time is not None
        parts = astuple(measured.time)
        assert sum(parts) == sample.window.duration_ns * measured.threads
        assert min(parts) >= 0


def end(capture: Capture) -> dict[int, Sample]:
    """End the window now; the Sample of each process by its PID."""
    os.kill(capture.pid, signal.SIGINT)
    samples = capture.samples()
    for sample in samples:
        assert sample.processes == len(samples)
        assert sample.window == samples[0].window
        check_sums(sample)
    return {sample.target.pid: sample for sample in samples}


def assert_accounted(sample: Sample) -> Thread:
    """The account of the round's thread is of all of the round, to the nanosecond."""
    assert sample.round is not None
    found = thread(sample, sample.round.tid)
    assert found.time is not None
    assert sum(astuple(found.time)) == sample.window.duration_ns
    return found
