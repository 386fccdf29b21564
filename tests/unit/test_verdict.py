"""The verdict: each rule finds its own cause, with the evidence, and an idle process has none."""

import pytest
from msgspec.structs import replace
from samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

from kernel_delay.analysis import verdict
from kernel_delay.analysis.verdict import Rule
from kernel_delay.model import (
    CpuTaker,
    Finding,
    HardIrqStats,
    LockWait,
    PageFaults,
    Sample,
    SoftIrqStats,
    SyscallStats,
    Thread,
)

MS = 1_000_000


def sample(*threads: Thread) -> Sample:
    return bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))


def call(name: str, on_cpu: int = 0, blocked: int = 0) -> SyscallStats:
    """Calls of a system call that took so many ms on a CPU and asleep."""
    total_ns = (on_cpu + blocked) * MS
    return SyscallStats(0, name, 1, total_ns, total_ns, (), on_cpu * MS, 0, blocked * MS, 0)


def found(rule: Rule, *threads: Thread) -> Finding:
    finding = rule(sample(*threads))
    assert finding is not None
    assert finding.rule == rule.__name__
    return finding


IDLE = (
    timed_thread(1, "ovs-vswitchd", user=2, kernel=1, ready=1),
    timed_thread(2, "handler1"),
    replace(timed_thread(3, "revalidator2", user=1, ready=2), syscalls=(call("poll", 1, 495),)),
)

BUSY = timed_thread(9, "revalidator9", user=485, kernel=10)

STARVED = replace(
    timed_thread(10, "revalidator10", user=120, kernel=20, ready=300),
    cpu_taken_by=(CpuTaker(77, "stress", 30, 240 * MS), CpuTaker(0, "idle", 3, 60 * MS)),
)


def test_idle_process_has_no_verdict() -> None:
    assert verdict.judge(sample(*IDLE)).verdict == ()


def test_without_accounting_there_is_no_verdict() -> None:
    threads = [replace(thread, time=None) for thread in (*IDLE, BUSY, STARVED)]
    assert verdict.judge(sample(*threads)).verdict == ()


@pytest.mark.parametrize("rule", verdict.RULES, ids=lambda rule: rule.__name__)
def test_no_rule_fires_on_an_idle_process(rule: Rule) -> None:
    assert rule(sample(*IDLE)) is None


def test_cpu_contention_names_who_had_the_cpu() -> None:
    finding = found(verdict.cpu_contention, *IDLE, STARVED)
    assert (finding.kernel, finding.tid, finding.share) == (True, 10, 0.6)
    assert "revalidator10 (10) could run but had no CPU for 300.0 ms, 60 %" in finding.text
    assert "stress (77) had the CPU for 80 % of that" in finding.text
    assert "same process" not in finding.text


def test_cpu_contention_tells_own_threads_and_sleeping_cpus_apart() -> None:
    by_idle = replace(STARVED, cpu_taken_by=(CpuTaker(0, "idle", 3, 300 * MS),))
    assert "CPU was idle" in found(verdict.cpu_contention, by_idle).text
    by_own = replace(STARVED, cpu_taken_by=(CpuTaker(9, "revalidator9", 3, 300 * MS),))
    assert "same process, revalidator9 (9)" in found(verdict.cpu_contention, BUSY, by_own).text


def test_the_worst_thread_is_named_and_the_others_counted() -> None:
    other = timed_thread(11, "handler11", ready=26)
    assert "(1 other thread too)" in found(verdict.cpu_contention, other, STARVED).text
    more = timed_thread(12, "handler12", ready=26)
    assert "(2 other threads too)" in found(verdict.cpu_contention, other, STARVED, more).text


def test_a_short_wait_in_a_short_window_is_negligible() -> None:
    thread = timed_thread(1, "a", ready=0)
    assert thread.time is not None
    for ready_ns, is_found in ((99_999, False), (100_000, True)):
        waited = replace(thread, time=replace(thread.time, ready_ns=ready_ns))
        short = bare_sample(waited, window=window(duration_ns=1_000_000))
        assert (verdict.cpu_contention(short) is not None) == is_found


def test_kernel_work_names_the_calls() -> None:
    thread = replace(
        timed_thread(5, "ovs-vswitchd", user=100, kernel=200),
        syscalls=(call("mmap", 60), call("clone3", 90), call("read", 1), call("munmap", 30)),
    )
    finding = found(verdict.kernel_work, *IDLE, thread)
    assert finding.kernel
    assert "clone3 90.0 ms, mmap 60.0 ms, munmap 30.0 ms" in finding.text
    assert "read" not in finding.text


def test_kernel_sleep_is_of_calls_that_are_not_made_to_wait() -> None:
    thread = replace(
        timed_thread(5, "ovs-vswitchd"),
        syscalls=(call("poll", 0, 300), call("fsync", 1, 150), call("munmap", 1, 20)),
    )
    finding = found(verdict.kernel_sleep, *IDLE, thread)
    assert finding.kernel
    assert finding.share == 0.34
    assert "fsync 150.0 ms" in finding.text
    waits = replace(thread, syscalls=thread.syscalls[:1])
    assert verdict.kernel_sleep(sample(waits)) is None


def test_lock_convoy_names_the_holder() -> None:
    thread = replace(
        timed_thread(5, "handler5"), lock_waits=(LockWait(0xABC0, 9, "revalidator9", 40, 90 * MS),)
    )
    finding = found(verdict.lock_convoy, *IDLE, thread)
    assert not finding.kernel
    assert "revalidator9 (9) held the one at 0xabc0 for 90.0 ms" in finding.text


def test_interrupt_load_names_the_interrupt() -> None:
    thread = replace(
        timed_thread(5, "pmd5", user=400, hard_irq=10, soft_irq=40),
        hard_irqs=(HardIrqStats("eth0", 100, 10 * MS, MS),),
        soft_irqs=(SoftIrqStats(3, "net_rx", 100, 40 * MS, MS),),
    )
    finding = found(verdict.interrupt_load, *IDLE, thread)
    assert finding.kernel
    assert "soft net_rx, 40.0 ms" in finding.text


def test_stopped_is_found() -> None:
    finding = found(verdict.stopped, *IDLE, timed_thread(5, "a", stopped=5))
    assert not finding.kernel
    assert "5.0 ms, 1 % of the window" in finding.text
    assert verdict.stopped(sample(timed_thread(5, "a", stopped=4))) is None


def test_page_faults_are_found() -> None:
    thread = replace(
        timed_thread(5, "a", kernel=20), page_faults=PageFaults(1234, 20 * MS, 80 * MS)
    )
    finding = found(verdict.page_faults, *IDLE, thread)
    assert finding.kernel
    assert "1,234 page faults kept a (5) for 100.0 ms" in finding.text
    assert "slept 80.0 ms" in finding.text


def test_user_work_acquits_the_kernel_only_if_nothing_speaks_against_it() -> None:
    alone = found(verdict.user_work, *IDLE, BUSY)
    assert not alone.kernel
    assert alone.text.startswith("the kernel is not to blame: 97 % of the window was user code")
    assert "not to blame" not in found(verdict.user_work, BUSY, STARVED).text


@pytest.mark.parametrize(
    ("rule", "part", "least"),
    [
        (verdict.cpu_contention, "ready", 25),
        (verdict.kernel_work, "kernel", 125),
        (verdict.interrupt_load, "soft_irq", 25),
        (verdict.user_work, "user", 250),
    ],
)
def test_thresholds_are_shares_of_the_window(rule: Rule, part: str, least: int) -> None:
    assert rule(sample(timed_thread(5, "a", **{part: least}))) is not None
    assert rule(sample(timed_thread(5, "a", **{part: least - 1}))) is None


def test_the_worst_comes_first() -> None:
    judged = verdict.judge(sample(BUSY, STARVED)).verdict
    assert [finding.rule for finding in judged] == ["user_work", "cpu_contention"]
    assert [finding.share for finding in judged] == [0.97, 0.6]
