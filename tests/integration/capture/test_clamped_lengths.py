"""Intervals that end before they began, as the clock of the CPU where they end is behind."""

import ctypes
import os
import time
from array import array
from contextlib import ExitStack

import pytest

from tests.integration.capture.test_missed_events import MS, Holed, Measured
from tests.integration.capture.workload import StartWorkload

# include/uapi/linux/bpf.h
BPF_MAP_LOOKUP_ELEM = 1
BPF_MAP_UPDATE_ELEM = 2
BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


def bpf(command: int, map_fd: int, pidfd: int, value: "array[int]") -> None:
    """Read, or write, what a map of task storage has for a thread."""
    key = ctypes.c_int(pidfd)
    attributes = array("Q", [map_fd, ctypes.addressof(key), value.buffer_info()[0], 0])
    libc = ctypes.CDLL(None, use_errno=True)
    address = attributes.buffer_info()[0]
    result = libc.syscall(BPF, command, ctypes.c_void_p(address), len(attributes) * 8)
    assert result == 0, os.strerror(ctypes.get_errno())


def enter_later(programs: Holed, pid: int, after_ns: int, later_ns: int) -> None:
    """Have the call that a thread sleeps in, since after_ns, begin later, as by a clock ahead."""
    threads = programs.threads
    pidfd = os.pidfd_open(pid)
    state = array("Q", bytes(threads.value_size))
    bpf(BPF_MAP_LOOKUP_ELEM, threads.fd, pidfd, state)
    # What began last together is the call and its execution context.
    times = [value for value in state if after_ns < value < time.monotonic_ns()]
    entry_ns = max(time_ns for time_ns in times if times.count(time_ns) == 2)
    last = max(index for index, time_ns in enumerate(state) if time_ns == entry_ns)
    state[last] += later_ns
    bpf(BPF_MAP_UPDATE_ELEM, threads.fd, pidfd, state)
    os.close(pidfd)


@pytest.mark.usefixtures("measurable")
def test_an_interval_that_ends_before_it_began_is_counted(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 1, 1)
    measured = Measured(workload.pid, closing)
    # From here on its calls are seen to begin.
    asked_ns = time.monotonic_ns()
    workload.ask()
    workload.parked()
    enter_later(measured.programs, workload.pid, asked_ns, 3_600_000 * MS)
    workload.finish()
    sample = measured.end()
    assert sample.lost.clamped_lengths == 1
    (read,) = (call for call in sample.threads[0].syscalls if call.name == "read")
    assert (read.count, read.total_ns) == (1, 0)
