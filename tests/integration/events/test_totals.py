"""Events against the tables, which are the same with and without them."""

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kernel_delay.capture import windows as module
from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.windows import NEVER_NS
from kernel_delay.host.target import find_target
from kernel_delay.loader._records import lib
from kernel_delay.model import Sample
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from tests import commands
from tests.emulation import few
from tests.event_captures import (
    Start,
    capture,
    check_sums,
    event_plan,
    events_of,
    until_it_slept,
)

CALLS = {"getppid": 200, "getuid": 100}
LAST_CALLS = {"getgid": 50}
WORKERS = {"worker 0", "worker 1", "worker 2"}


def capture_counted(start: Start, plan: EventPlan | None) -> Sample:
    """Capture its known calls; other threads wait for the same CPUs meanwhile."""
    workload = start("counted_calls")
    return capture(workload.pid, plan, workload.send)


def known_calls(sample: Sample) -> dict[str, dict[str, int]]:
    """By thread, how often each call was made that is made on purpose."""
    wanted = CALLS.keys() | LAST_CALLS.keys()
    return {
        thread.name: {
            call.name: call.count for call in thread.syscalls if call.name and call.name in wanted
        }
        for thread in sample.threads
    }


@pytest.mark.parametrize(
    "plan",
    few(
        [
            pytest.param(event_plan(), id="dwarf"),
            pytest.param(None, id="off"),
            pytest.param(event_plan("getuid"), id="filtered"),
            pytest.param(event_plan(stack_mode="fp"), id="fp"),
            pytest.param(event_plan(stack_mode="none"), id="none"),
            pytest.param(event_plan(max_events=7), id="few kept"),
            pytest.param(event_plan(buffer_pages=1), id="small buffer"),
            pytest.param(event_plan(shortest_ns=10**9), id="long ones only"),
        ],
        3,
    ),
)
def test_tables_are_the_same_with_any_events(start: Start, plan: EventPlan | None) -> None:
    sample = capture_counted(start, plan)
    assert known_calls(sample) == {
        "counted_calls": LAST_CALLS,
        **dict.fromkeys(WORKERS, CALLS),
    }
    if plan is None:
        assert sample.syscall_events is None
    elif plan.syscalls is None and not plan.shortest_ns:
        check_sums(sample)


def test_no_shorter_call_is_an_event(start: Start) -> None:
    """Where the machine has time most calls have three quarters of the length that one needs."""
    shortest_ns = 2_000_000
    process = start("storm", "1", "1500")
    plan = event_plan(stack_mode="none", shortest_ns=shortest_ns)
    sample = capture(process.pid, plan, until_it_slept(process, 100))
    assert all(event.exit_ns - event.entry_ns >= shortest_ns for event in events_of(sample))


class Late:
    """The extension, but that this process has no CPU for a while when a window was published."""

    def __init__(self, *late: bool) -> None:
        """Which of the windows that are to open come too late, until none does any more."""
        self.late = list(late)

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)

    def publish_window(self, control: Any, start_ns: int, stop_ns: int) -> None:
        lib.publish_window(control, start_ns, stop_ns)
        if start_ns != NEVER_NS and self.late and self.late.pop(0):
            time.sleep(0.1)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(event_plan(stack_mode="none"), id="all kept"),
        pytest.param(event_plan(stack_mode="none", max_events=20), id="few kept"),
        pytest.param(event_plan(max_stacks=1), id="few stacks kept"),
    ],
)
def test_a_window_that_opened_too_late_leaves_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch, plan: EventPlan
) -> None:
    monkeypatch.setattr(module, "lib", Late(True, True))
    process = start("storm", "3", "1000")
    sample = capture(process.pid, plan, until_it_slept(process, 100))
    assert events_of(sample)
    check_sums(sample)
    if plan.stack_mode == "none":
        assert sample.lost.stacks == 0
        return
    # An event that lost either of its stacks is one, of each of which there is room for one; and
    # those that did not sleep have none of the kernel's.
    events = list(events_of(sample))
    without = [event.user_stack is None for event in events]
    without_either = [event.user_stack is None or event.kernel_stack is None for event in events]
    assert sum(without) <= sample.lost.stacks <= sum(without_either)


def test_late_window_takes_no_events_from_the_previous_one(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "lib", Late(False, True))
    process = start("storm", "1", "1000")
    windows = WindowPlan(sample_time_ns=500_000_000, count=2)
    events = SessionOptions(events=event_plan(stack_mode="none"))
    with Session(find_target(process.pid), windows, events) as session:
        samples = list(session.samples())
    assert len(samples) == 2
    for sample in samples:
        assert events_of(sample)
        check_sums(sample)


def test_each_call_is_an_event(start: Start) -> None:
    sample = capture_counted(start, event_plan())
    assert (sample.lost.events, sample.lost.shorter_events) == (0, 0)
    names = {thread.tid: thread.name for thread in sample.threads}
    counts = Counter((names[event.tid], event.name) for event in events_of(sample))
    for worker in WORKERS:
        assert {name: counts[worker, name] for name in CALLS} == CALLS
    assert counts["counted_calls", "getgid"] == 50


def test_events_say_what_was_returned(start: Start) -> None:
    sample = capture_counted(start, event_plan("getuid", "getppid"))
    returned = {(event.name, event.ret) for event in events_of(sample)}
    assert returned == {("getuid", os.getuid()), ("getppid", os.getpid())}


def test_only_calls_asked_for_are_events(start: Start) -> None:
    sample = capture_counted(start, event_plan("getuid", "getgid"))
    assert Counter(event.name for event in events_of(sample)) == {"getuid": 300, "getgid": 50}
    but = event_plan(skipped=event_plan("getuid", "getgid").syscalls)
    others = {event.name for event in events_of(capture_counted(start, but))}
    assert "getppid" in others
    assert not others & {"getuid", "getgid"}


def test_only_calls_that_take_so_long_are_events(start: Start) -> None:
    sample = capture_counted(start, event_plan(shortest_ns=20_000))
    calls = sum(call.count for thread in sample.threads for call in thread.syscalls)
    assert len(events_of(sample)) < calls
    assert all(event.exit_ns - event.entry_ns >= 20_000 for event in events_of(sample))


def test_threads_that_ended_keep_their_names(start: Start) -> None:
    sample = capture_counted(start, event_plan("getuid"))
    assert sample.window.ended_by == "exit"
    table = text.render(sample, Layout(events=True)).split("# SYSCALL EVENTS:\n")[1]
    lines = [line for line in table.splitlines()[2:] if line.endswith("  getuid")]
    assert Counter(line[53:69].strip() for line in lines) == dict.fromkeys(WORKERS, 100)


def test_the_command_writes_text_json_and_folded_stacks(start: Start, tmp_path: Path) -> None:
    process = start("storm", "1", "1000")
    samples, stacks = tmp_path / "samples.jsonl", tmp_path / "stacks.folded"
    done = commands.run(
        *("--pid", process.pid, "-s", "--syscall-filter", "getppid", "--max-events", "10"),
        *("--sample-time", "3", "--folded", stacks, "--json", samples, "--events"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    sample = json.loads(samples.read_text())
    assert len(sample["syscall_events"]) == 10
    assert sample["lost"]["shorter_events"] > 0
    assert done.stdout.count("  getppid\n") == 10
    assert "      call_below+0x" in done.stdout
    assert "# WARNING: the longest events are here;" in done.stdout
    weights = Counter[str]()
    for line in stacks.read_text().splitlines():
        frames, _, weight = line.rpartition(" ")
        weights[frames.split(";")[0]] += int(weight)
        assert frames.endswith(";getppid_[k]")
        assert ";main;call_below;" in frames
    lengths = [event["exit_ns"] - event["entry_ns"] for event in sample["syscall_events"]]
    assert weights == {"storm": sum(lengths)}
