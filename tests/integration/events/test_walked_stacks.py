"""Stacks that are walked in the kernel: as from a copy, whole, and known for what they are not."""

import os
from pathlib import Path

import pytest

from kernel_delay.capture.plan import EventPlan, Plan, StackMode, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.model import Sample
from tests.event_captures import Start, capture, event_plan, events_of, until_it_slept, user_stack
from tests.integration.symbols.call_chains import TO_MAIN, build, running, short_name

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="tables are x86-64's")

MOST_FRAMES = 128

# BPF_MAP_TYPE_ARRAY_OF_MAPS, include/uapi/linux/bpf.h.
MAP_OF_MAPS = "map_type:\t12\n"


@pytest.fixture(scope="module")
def call_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("call_chain"))


def frames_of(command: list[object], mode: StackMode) -> tuple[list[tuple[object, ...]], Sample]:
    """The names and places of the frames that the chain's first call is made from."""
    with running(command) as run:
        run.wait_for_read()

        def go_on_to_the_end() -> None:
            run.go_on()
            # Some chains stop again: the window ends when the process does.
            assert run.process.stdin
            run.process.stdin.close()

        sample = capture(run.process.pid, event_plan("getppid", stack_mode=mode), go_on_to_the_end)
        tid = run.tid
    event = next(event for event in events_of(sample) if event.tid == tid)
    frames = user_stack(sample, event)
    return [(short_name(frame), frame.offset, frame.object) for frame in frames], sample


def lost_stacks(sample: Sample) -> tuple[int, int, int]:
    lost = sample.lost
    return lost.stacks, lost.truncated_stacks, lost.failed_unwinds


def whole(sample: Sample) -> bool:
    return lost_stacks(sample) == (0, 0, 0)


@pytest.mark.parametrize(
    "chain", ["recursion", "alloca", "big", "library", "thread", "leaderless", "plt", "vdso"]
)
def test_the_frames_are_those_of_a_copy(call_chain: Path, chain: str) -> None:
    walked, sample = frames_of([call_chain, chain], "table")
    assert whole(sample)
    assert walked == frames_of([call_chain, chain], "dwarf")[0]
    assert len(walked) > 3


@pytest.mark.parametrize("chain", ["signal", "fault", "generated", "generated-opaque"])
def test_a_stack_that_no_walk_ends_is_copied(call_chain: Path, chain: str) -> None:
    frames, sample = frames_of([call_chain, chain], "auto")
    copied, of_copies = frames_of([call_chain, chain], "dwarf")
    if chain == "generated-opaque":
        # Where generated code lies differs from one process to the next.
        frames, copied = frames[:1], copied[:1]
    assert [frame[0] for frame in frames] == [frame[0] for frame in copied]
    assert lost_stacks(sample) == lost_stacks(of_copies)


@pytest.mark.parametrize("chain", ["signal", "fault"])
def test_without_a_copy_such_a_stack_is_counted(call_chain: Path, chain: str) -> None:
    frames, sample = frames_of([call_chain, chain], "table")
    # The handler returns to the frame that is the last one here.
    handler = TO_MAIN[chain].index("(signal)")
    assert [frame[0] for frame in frames[:-1]] == TO_MAIN[chain][:handler]
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 1)


def test_stacks_after_exec_do_not_use_the_old_table(call_chain: Path) -> None:
    """After execve(2), where that may be at the same addresses."""
    command = f"read line; exec setarch -R {call_chain} recursion"
    with running(["setarch", "-R", "sh", "-c", f"echo $$; {command}"]) as run:
        run.wait_for_read()

        def go_on_twice() -> None:
            run.go_on()
            run.go_on()

        plan = event_plan("getppid", stack_mode="table")
        sample = capture(run.process.pid, plan, go_on_twice)
    stacks = [user_stack(sample, event) for event in events_of(sample)]
    assert stacks
    assert all(len(stack) <= 1 for stack in stacks[1:])


@pytest.mark.parametrize("mode", ["table", "auto"])
def test_a_stack_of_more_frames_is_short_or_copied(start: Start, mode: StackMode) -> None:
    deepest = MOST_FRAMES + 12
    workload = start("storm", deepest, 1000)
    plan = event_plan("getppid", stack_mode=mode)
    sample = capture(workload.pid, plan, until_it_slept(workload, 2 * deepest))
    depths = {len(user_stack(sample, event)) for event in events_of(sample) if event.user_stack}
    lost = sample.lost
    assert max(depths) == MOST_FRAMES if mode == "table" else max(depths) > MOST_FRAMES
    assert (lost.failed_unwinds, lost.truncated_stacks > 0) == (0, mode == "table")


def test_numbers_are_no_frames(start: Start) -> None:
    """What is no code along frame pointers must not make each event's stack another one."""
    workload = start("no_frame_pointers", 1000)

    def call() -> None:
        workload.send()
        workload.line()
        workload.process.kill()

    sample = capture(workload.pid, event_plan("getppid", stack_mode="fp", max_stacks=50), call)
    assert len(events_of(sample)) == 1000
    assert sample.lost.stacks == 0
    assert {len(user_stack(sample, event)) for event in events_of(sample)} == {1}
    assert sample.lost.failed_unwinds == 1000


@pytest.mark.parametrize("mode", ["none", "fp", "dwarf", "auto", "table"])
def test_the_table_is_there_where_stacks_are_walked(mode: StackMode) -> None:
    plan = Plan(WindowPlan(sample_time_ns=1), EventPlan(stack_mode=mode))
    with Programs((os.getpid(),), plan):
        infos = [path.read_text() for path in Path("/proc/self/fdinfo").iterdir() if path.exists()]
    assert any(MAP_OF_MAPS in info for info in infos) == (mode in {"auto", "table"})
