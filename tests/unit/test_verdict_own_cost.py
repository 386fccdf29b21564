"""kernel-delay's own part of a thread's time: its own finding, and nobody else's."""

from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import Finding, Sample, SyscallStats, TaskTimes, Thread
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000


def reported(tool: int) -> Thread:
    """A thread that makes 400,000 calls in half a second, of which so many ms are the tool's."""
    calls = SyscallStats(110, "getppid", 400_000, 40 * MS, MS, (), 40 * MS, 0, 0, 0)
    # What the kernel counts as its own: the call, its edges, and the tool.
    counted = TaskTimes(300 * MS - tool * MS, 200 * MS + tool * MS, 0, 0, steal_ns=0)
    thread = timed_thread(5, "app", user=460 - tool, kernel=40, tool=tool)
    return replace(thread, syscalls=(calls,), task_times=counted)


def verdict(thread: Thread) -> dict[str, Finding]:
    return {finding.rule: finding for finding in judge(sample(thread)).verdict}


def sample(thread: Thread) -> Sample:
    return bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))


def test_the_tools_own_part_is_reported_as_its_own() -> None:
    finding = verdict(reported(tool=260))["own_cost"]
    assert finding.text == (
        "kernel-delay's own reports of calls (-s) took the CPU from app (5) for 260.0 ms, 52 % of"
        " the window. The thread made 800,000 calls a second. With -s DURATION_NS"
        " only longer calls are reported."
    )
    assert (finding.who, finding.remark) == ("tool", False)
    assert finding.evidence["lost_ns"] == 260 * MS


def test_the_kernel_is_not_accused_of_it() -> None:
    assert "doubtful_user" not in verdict(reported(tool=260))


def test_what_the_tool_did_not_take_is_doubtful_still() -> None:
    thread = reported(tool=0)
    counted = TaskTimes(40 * MS, 460 * MS, 0, 0, steal_ns=0)
    assert "doubtful_user" in verdict(replace(thread, task_times=counted))


def test_a_small_part_is_not_worth_a_sentence() -> None:
    assert "own_cost" not in verdict(reported(tool=20))
