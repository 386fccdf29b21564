"""What reporting calls one by one takes is kernel-delay's own, and where calls slept is there."""

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import astuple

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import Sample, ThreadTime
from tests.event_captures import Start, capture, event_plan, events_of
from tests.system_calls import syscall_number
from tests.workload import Workload, wait_until

SLEEP_US = 1_000

RUN_NS = 30_000_000

LEAST_COPY_NS = 50
"""A page, at 80 GB/s."""

# bpf(2), and of include/uapi/linux/bpf.h: the kernel counts how long programs run.
BPF = {"x86_64": 321, "aarch64": 280}
BPF_ENABLE_STATS = 32
BPF_STATS_RUN_TIME = ctypes.c_uint32(0)

SPLICES = """
import contextlib, os, sys, threading, time
(empty, fills), (drains, full) = os.pipe(), os.pipe()
def fill():
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, bytes(4096))
    os.set_blocking(full, True)
def sleeps_in_its_call():
    with open(f"/proc/self/task/{os.getpid()}/syscall") as file:
        return file.read().startswith(sys.argv[1] + " ")
def helps():
    while not sleeps_in_its_call():
        time.sleep(0.001)
    time.sleep(0.3)
    os.write(fills, b"x")
    time.sleep(0.05)
    os.read(drains, 1 << 16)
print("ready", flush=True)
sys.stdin.read()
for _ in range(3):
    fill()
    helper = threading.Thread(target=helps)
    helper.start()
    os.splice(empty, full, 1)
    helper.join()
"""
"""It waits long for what it reads from, and then briefly for room in what it writes to.

It does so again, as a sleep may be missed: then it is not known how long the call slept.
"""


@contextmanager
def programs_timed() -> Iterator[None]:
    """Have the kernel count, as long as this lasts, how long each program runs."""
    size = ctypes.sizeof(BPF_STATS_RUN_TIME)
    call = BPF[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(call, BPF_ENABLE_STATS, ctypes.byref(BPF_STATS_RUN_TIME), size)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        os.close(descriptor)


def programs_ran_ns() -> int:
    """Return how long all programs ran that this process has loaded, by proc_pid_fdinfo(5)."""
    texts = [path.read_text() for path in Path("/proc/self/fdinfo").iterdir() if path.exists()]
    return sum(int(ns) for text in texts for ns in re.findall(r"run_time_ns:\s+(\d+)", text))


def until_it_ran(process: Workload) -> Callable[[], None]:
    """What lets a process run for a while, however busy the machine is, and then kills it."""

    def ran_ns() -> int:
        # Documentation/scheduler/sched-stats.rst (6.18): its time on CPUs.
        return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])

    def wait() -> None:
        until_ns = ran_ns() + RUN_NS
        wait_until(lambda: ran_ns() >= until_ns)
        process.kill()

    return wait


def time_of(sample: Sample) -> ThreadTime:
    """The only thread's, which is the window."""
    (thread,) = sample.threads
    assert thread.time is not None
    assert sum(astuple(thread.time)) == sample.window.duration_ns
    return thread.time


def test_stack_copies_are_the_tools_own_time(start: Start) -> None:
    process, most_ns = start("storm"), 0

    def note() -> None:
        nonlocal most_ns
        most_ns = programs_ran_ns()

    with programs_timed():
        sample = capture(process.pid, event_plan(), until_it_ran(process), at_end=note)
    copied = sum(event.user_stack is not None for event in events_of(sample))
    assert copied
    assert copied * LEAST_COPY_NS < time_of(sample).tool_ns < most_ns


def test_the_kernel_is_not_blamed_for_stack_copies(start: Start) -> None:
    process = start("storm")
    sample = capture(process.pid, event_plan(), until_it_ran(process))
    assert "doubtful_user" not in {finding.rule for finding in judge(sample).verdict}


def test_without_events_nothing_is_the_tools(start: Start) -> None:
    process = start("storm")
    assert time_of(capture(process.pid, None, until_it_ran(process))).tool_ns == 0


def test_a_calls_kernel_stack_is_where_it_slept(start: Start) -> None:
    process = start("storm", "1", str(SLEEP_US))
    sample = capture(process.pid, event_plan(), until_it_ran(process))
    slept = [event for event in events_of(sample) if event.name == "clock_nanosleep"]
    places = {event.kernel_stack for event in slept}
    stacks = [sample.stacks[place] for place in places if place is not None]
    assert stacks
    for stack in stacks:
        assert all(frame.object == "kernel" for frame in stack)
        # The scheduler's own functions are left out (kernel/stacktrace.c).
        assert "hrtimer_nanosleep" in [frame.name for frame in stack]
        # arch/x86/entry/entry_64.S and arch/arm64/kernel/entry.S
        assert (stack[-1].name or "").startswith(("entry_SYSCALL_64", "el0t_64_sync"))


def test_of_two_sleeps_of_a_call_the_longer_one_is_where_it_slept(closing: ExitStack) -> None:
    process = closing.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", SPLICES, str(syscall_number("splice"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    closing.callback(process.kill)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    sample = capture(process.pid, event_plan("splice"), process.stdin.close)
    known = [event for event in events_of(sample) if event.off_cpu_ns is not None]
    assert known
    for event in known:
        assert event.kernel_stack is not None
        names = {frame.name for frame in sample.stacks[event.kernel_stack]}
        # fs/pipe.c, 5.14 to 6.18: the other one is pipe_wait_writable().
        assert "pipe_wait_readable" in names


def test_call_that_did_not_sleep_has_no_kernel_stack(start: Start) -> None:
    process = start("counted_calls")
    sample = capture(process.pid, event_plan("getppid"), process.send)
    events = events_of(sample)
    assert any(event.user_stack is not None for event in events)
    assert {event.kernel_stack for event in events} == {None}
