"""Stacks with frames as large as Open vSwitch's are whole, and of a copy that is bounded."""

import os

import pytest

from kernel_delay.capture.plan import EventPlan
from kernel_delay.commands.options.arguments import STACK_BYTES_MAX
from kernel_delay.model import Sample
from tests.event_captures import Start, capture, event_plan, events_of, user_stack

UPPER = ["call_often", "operate", "receive_upcalls", "run"]
LOWER = ["call_often", "receive", *UPPER[1:]]
X86_64_ONLY = "where a frame lies is told by the return address on x86-64 alone"


def capture_deep(start: Start, plan: EventPlan, *arguments: str) -> Sample:
    workload = start("deep_frames", *arguments)

    def act() -> None:
        workload.send()
        assert workload.line() == "done"
        workload.finish()

    return capture(workload.pid, plan, act)


def own_functions(sample: Sample) -> list[list[str | None]]:
    """Of each event's stack, the functions of the program."""
    return [
        [frame.name for frame in user_stack(sample, event) if "deep_frames" in (frame.object or "")]
        for event in events_of(sample)
        if event.user_stack is not None
    ]


OF_LARGE_FRAMES = pytest.mark.skipif(os.uname().machine != "x86_64", reason=X86_64_ONLY)


@pytest.mark.parametrize(
    "touched",
    [
        pytest.param("1", id="all", marks=OF_LARGE_FRAMES),
        pytest.param("2", id="half", marks=OF_LARGE_FRAMES),
        pytest.param("1000", id="none"),
    ],
)
def test_frames_of_457_kb_are_whole(start: Start, touched: str) -> None:
    sample = capture_deep(start, event_plan("getppid"), touched, "frames")
    found = own_functions(sample)
    assert found == [UPPER] * 100 + [LOWER] * 100
    lost = sample.lost
    assert (lost.stacks, lost.truncated_stacks, lost.failed_unwinds) == (0, 0, 0)


@OF_LARGE_FRAMES
def test_of_large_frames_only_the_edges_are_copied(start: Start) -> None:
    plan = event_plan("getppid", stack_bytes=8 * 4096)
    sample = capture_deep(start, plan, "1", "frames")
    assert own_functions(sample) == [UPPER] * 100 + [LOWER] * 100
    assert sample.lost.truncated_stacks == 0


@OF_LARGE_FRAMES
def test_frame_sized_by_its_frame_pointer_is_copied_whole(start: Start) -> None:
    plan = event_plan("getppid", stack_bytes=STACK_BYTES_MAX)
    sample = capture_deep(start, plan, "1", "variable")
    kinds = {tuple(names) for names in own_functions(sample)}
    upper = ("call_often", "operate", "vary", "receive_upcalls", "run")
    assert kinds == {upper, ("call_often", "receive", *upper[1:])}
    assert sample.lost.truncated_stacks == 0


def test_short_copy_is_counted_as_cut_and_truncated(start: Start) -> None:
    plan = event_plan("getppid", stack_bytes=4 * 4096)
    lost = capture_deep(start, plan, "1", "variable").lost
    assert lost.cut_stacks == lost.truncated_stacks > 0
