"""Whether something runs at each system call: only where no machine's own speed explains it."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.host.system_state import call_cost
from kernel_delay.model import CallCost, Finding, SyscallStats, SystemState, TaskTimes, Thread
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000
USUAL = CallCost(call_ns=300, function_ns=22)


def calls(mean_ns: int, name: str = "getppid") -> Thread:
    count = 200 * MS // mean_ns
    stats = SyscallStats(110, name, count, 200 * MS, mean_ns, (), 200 * MS, 0, 0, 0)
    counted = TaskTimes(30 * MS, 470 * MS, 0, 0, steal_ns=0)
    thread = timed_thread(5, "app", user=300, kernel=200)
    return replace(thread, syscalls=(stats,), task_times=counted)


def verdict(
    thread: Thread, cost: CallCost | None = USUAL, seccomp: int | None = 0
) -> dict[str, Finding]:
    judged = judge(
        bare_sample(
            thread,
            window=window(duration_ns=TIMED_WINDOW_NS),
            system_state=SystemState(call_cost=cost, seccomp_filters=seccomp),
        )
    )
    return {finding.rule: finding for finding in judged.verdict}


def test_unusually_slow_calls_name_a_tracer_or_bpf_program() -> None:
    found = verdict(calls(1700))
    finding = found["kernel_work"]
    assert finding.text.startswith(
        "the kernel worked for app (5), on a CPU, for 229.4 ms, 46 % of the window. Each getppid"
        " took 1.7 µs, 6 times the usual: a tracer or BPF program runs at each call."
    )
    assert finding.who == "other-process"
    assert "Fewer calls" not in finding.text
    assert "doubtful_user" not in found


def test_seccomp_filter_is_named_if_there_may_be_one() -> None:
    for filters in (1, None):
        text = verdict(calls(1700), seccomp=filters)["kernel_work"].text
        assert "a tracer, BPF program or seccomp filter runs at each call" in text


@pytest.mark.parametrize(
    ("mean_ns", "cost"),
    [
        (300, USUAL),
        (890, USUAL),
        # A slow processor, and an emulated one.
        (1700, CallCost(call_ns=700, function_ns=60)),
        (15_000, CallCost(call_ns=9000, function_ns=900)),
        (1700, None),
    ],
)
def test_what_a_slow_machine_explains_is_not_told(mean_ns: int, cost: CallCost | None) -> None:
    assert "runs at each call" not in verdict(calls(mean_ns), cost)["kernel_work"].text


def test_calls_slow_for_all_processes_are_not_usual() -> None:
    found = verdict(calls(3500), CallCost(call_ns=7000, function_ns=22))
    assert "8 times the usual" in found["kernel_work"].text


def test_calls_slow_for_the_tool_too_need_not_be_many_times_slower() -> None:
    """bpftrace with five maps at sys_exit, on a CPU where a function takes 49 ns."""
    text = verdict(calls(1395), CallCost(call_ns=2803, function_ns=49))["kernel_work"].text
    assert "took 1.4 µs, more than usual: a tracer or BPF program runs at each call." in text
    assert "Fewer calls" not in text


def test_hook_is_named_for_any_call_that_may_be_most_of_it() -> None:
    cost = CallCost(call_ns=2803, function_ns=40)
    finding = verdict(calls(2200, "read"), cost)["kernel_work"]
    assert "of 2,200 ns each" in finding.text
    assert "A tracer or BPF program runs at each call of any process:" in finding.text
    assert finding.who == "other-process"
    # What takes longer does more than what is hooked.
    assert "runs at each call" not in verdict(calls(6000, "read"), cost)["kernel_work"].text


def test_hook_before_the_entry_is_seen_is_no_reason_for_fewer_calls() -> None:
    finding = verdict(calls(400), CallCost(call_ns=2803, function_ns=40))["kernel_work"]
    assert "A tracer or BPF program runs at each call of any process:" in finding.text
    assert "kernel-delay's own getppid took 2.8 µs." in finding.text
    assert finding.who == "other-process"
    assert "Fewer calls" not in finding.text


def test_calls_that_do_something_may_take_long() -> None:
    assert "runs at each call" not in verdict(calls(3500, "write"))["kernel_work"].text


def test_interrupts_are_no_part_of_a_call() -> None:
    thread = calls(1700)
    assert thread.time is not None
    flooded = replace(thread, time=replace(thread.time, soft_irq_ns=150 * MS, user_ns=150 * MS))
    assert "runs at each call" not in verdict(flooded)["kernel_work"].text


def test_what_calls_cost_here_is_measured() -> None:
    cost = call_cost()
    assert cost.call_ns > 0
    assert cost.function_ns > 0
