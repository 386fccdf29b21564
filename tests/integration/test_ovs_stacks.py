"""The user stacks of a real Open vSwitch's system calls are whole."""

import os

import pytest

from kernel_delay.model import Sample, StackFrame
from lab.binaries import Binaries
from lab.instance import Instance
from lab.traffic import Traffic
from tests.event_captures import capture, check_sums, event_plan, events_of, user_stack
from tests.integration import kernel_datapath
from tests.workload import LASTS_S

EVENTS = 1000
HANDLERS_EVENTS = 100
LONGEST_WINDOW_S = 32.0


@pytest.fixture(scope="module")
def sample(root_user: None, usdt_binaries: Binaries) -> Sample:
    """A thousand events and more of one under new flows, each with its stacks."""
    with Instance(usdt_binaries) as instance, Traffic(instance, rate=200, seconds=LASTS_S):
        seconds = 1.0
        while True:
            found = capture(instance.pid, event_plan(), sample_time_s=seconds)
            with_stacks = sum(event.user_stack is not None for event in events_of(found))
            if with_stacks >= EVENTS or seconds >= LONGEST_WINDOW_S:
                return found
            seconds *= 2


@pytest.fixture(scope="module")
def kernel_sample(root_user: None, usdt_binaries: Binaries) -> Sample:
    """The calls that handlers read upcalls by, and send packets and flows back with."""
    if not kernel_datapath.is_there():
        pytest.skip("the kernel module openvswitch is not loaded")
    with (
        Instance(usdt_binaries, datapath="system") as instance,
        Traffic(instance, rate=200, seconds=LASTS_S),
    ):
        seconds = 1.0
        while True:
            found = capture(instance.pid, event_plan("recvmsg", "sendmsg"), sample_time_s=seconds)
            if len(handlers_stacks(found)) >= HANDLERS_EVENTS or seconds >= LONGEST_WINDOW_S:
                return found
            seconds *= 2


def handlers_stacks(sample: Sample) -> list[tuple[StackFrame, ...]]:
    handlers = {thread.tid for thread in sample.threads if thread.name.startswith("handler")}
    return [
        user_stack(sample, event)
        for event in events_of(sample)
        if event.tid in handlers and event.user_stack is not None
    ]


def reaches_the_first_function(stack: tuple[StackFrame, ...]) -> bool:
    """Whether it goes down to _start or, by a thread's function, to libc's clone.

    libc's own functions (start_thread, clone3) have no names without its
    debug file; OVS starts each thread in ovsthread_wrapper (ovs-thread.c).
    """
    if stack[-1].name == "_start":
        return any(frame.name == "main" for frame in stack)
    first = next((at for at, frame in enumerate(stack) if frame.name == "ovsthread_wrapper"), None)
    if first is None:
        return stack[-1].name in ("clone3", "__clone3", "__clone", "start_thread")
    outer = stack[first + 1 :]
    return bool(outer) and all("libc" in (frame.object or "") for frame in outer)


def test_nearly_all_stacks_reach_the_threads_first_function(sample: Sample) -> None:
    with_stacks = [event for event in events_of(sample) if event.user_stack is not None]
    stacks = [user_stack(sample, event) for event in with_stacks]
    assert len(stacks) >= EVENTS
    whole = sum(map(reaches_the_first_function, stacks))
    print(f"{whole} of {len(stacks)} events' stacks are whole; {len(set(stacks))} are distinct")
    assert whole >= 0.99 * len(stacks)
    assert sample.lost.truncated_stacks + sample.lost.failed_unwinds <= 0.01 * len(stacks)


def test_each_named_frame_is_in_an_object(sample: Sample) -> None:
    frames = {frame for stack in sample.stacks for frame in stack}
    assert all(frame.object for frame in frames if frame.name)
    nameless = [frame for frame in frames if not frame.name and "ovs" in (frame.object or "")]
    assert not nameless


def test_events_and_tables_agree(sample: Sample) -> None:
    check_sums(sample)


@pytest.mark.skipif(
    os.uname().machine != "x86_64",
    reason="arm64 copies large frames whole, and 457 KB are too much",
)
def test_handlers_stacks_are_whole_with_the_kernels_datapath(kernel_sample: Sample) -> None:
    """Theirs are the deepest: recv_upcalls() and those it calls have up to 457 KB of frames."""
    stacks = handlers_stacks(kernel_sample)
    assert len(stacks) >= HANDLERS_EVENTS
    assert all(map(reaches_the_first_function, stacks))
    deep = [stack for stack in stacks if any(frame.name == "recv_upcalls" for frame in stack)]
    assert deep
    # Of other threads some may be cut; of 457 KB there is no room for a whole copy.
    lost = kernel_sample.lost
    assert lost.truncated_stacks + lost.failed_unwinds <= 0.01 * len(events_of(kernel_sample))
    assert lost.stacks == 0
