"""What a verdict does not say, as it is not sure: whose time it was, and who ended a wait."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import (
    ChainPart,
    ChainThread,
    Finding,
    HardIrqStats,
    Scheduling,
    Sleep,
    SoftIrqStats,
    SyscallStats,
    Target,
    TaskTimes,
    Thread,
    WaitChain,
    Waker,
)
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000
PID = 27090


def verdict(thread: Thread, exe: str = "/usr/sbin/ovs-vswitchd") -> dict[str, Finding]:
    sample = bare_sample(
        thread, window=window(duration_ns=TIMED_WINDOW_NS), target=Target(PID, "app", exe)
    )
    return {finding.rule: finding for finding in judge(sample).verdict}


def busy(user: int, kernel: int, counted_user: int, counted_system: int) -> Thread:
    """A thread with times that were seen, and those that the kernel counted, in ms."""
    times = TaskTimes(counted_user * MS, counted_system * MS, 0, 0, steal_ns=0)
    return replace(timed_thread(PID, "app", user=user, kernel=kernel), task_times=times)


def test_likely_system_time_is_not_reported_as_user_work() -> None:
    # Page faults took 145 ms of the 385, and calls 115: by chance stime can be so much more.
    assert "user_work" not in verdict(busy(385, 115, 240, 260))
    # Where stime has little more, some of the own code may be the kernel's.
    some = verdict(busy(385, 115, 300, 200))["user_work"].text
    assert "was in its own code for 385.0 ms" in some
    assert "not to blame" not in some


@pytest.mark.parametrize(("counted_user", "acquits"), [(300, False), (304, True)])
def test_the_shorter_the_tick_the_more_is_known(counted_user: int, acquits: bool) -> None:
    # With 304 ms it can be no longer than 4 ms.
    text = verdict(busy(300, 100, counted_user, 100))["user_work"].text
    assert ("not to blame" in text) == acquits


def test_user_work_unchecked_by_the_kernel_is_not_reported() -> None:
    unchecked = timed_thread(PID, "app", user=430)
    assert "user_work" not in verdict(unchecked)


def test_calls_of_another_abi_may_take_the_kernels_time() -> None:
    calls = SyscallStats(20, "getpid", 40_000, 8 * MS, 1000, abi="i386")
    text = verdict(replace(busy(490, 8, 160, 340), syscalls=(calls,)))["doubtful_user"].text
    assert "It had 80,000 system calls of another ABI a second" in text


FLOODED = replace(
    timed_thread(PID, "app", user=279, hard_irq=33, soft_irq=188),
    hard_irqs=(HardIrqStats("function call", 26_000, 33 * MS, MS),),
    soft_irqs=(SoftIrqStats(3, "net_rx", 26_000, 188 * MS, MS),),
    task_times=TaskTimes(10 * MS, 490 * MS, 0, 0, steal_ns=0),
)


def test_what_interrupts_took_is_no_work_for_the_thread() -> None:
    found = verdict(FLOODED)
    assert "doubtful_user" not in found
    text = found["interrupt_load"].text
    assert "Most of it was soft net_rx, 188.0 ms." in text
    assert "To enter and leave 52,000 interrupts a second may have taken another" in text


def test_a_doubt_that_interrupts_explain_names_them() -> None:
    # Their handlers took too little to be found.
    flooded = replace(
        busy(490, 0, 160, 340), hard_irqs=(HardIrqStats("function call", 26_000, 5 * MS, MS),)
    )
    text = verdict(flooded)["doubtful_user"].text
    assert text.startswith("the kernel had the CPU of the main thread")
    assert "It had 52,000 interrupts a second" in text
    unknown = verdict(busy(490, 0, 160, 340))["doubtful_user"].text
    assert unknown.startswith("the kernel had the CPU of the main thread")
    assert "The cause is not known." in unknown


def futex_waits(ms: int, count: int, *wakers: Waker) -> Thread:
    slept = Sleep("futex", "futex", (), False, count, ms * MS, 300 * MS, wakers)
    return replace(timed_thread(PID, "app"), sleeps=(slept,))


def test_waker_of_few_waits_is_not_named_for_all() -> None:
    early = Waker("thread", 9, PID, "early", 3, 15 * MS)
    assert "early" not in verdict(futex_waits(500, 4, early))["wait_futex"].text
    half = replace(early, ns=250 * MS)
    assert "early (9) of the same process ended 50 % of that" in (
        verdict(futex_waits(500, 4, half))["wait_futex"].text
    )


def test_waits_too_long_for_the_gil_are_not_blamed() -> None:
    assert "GIL" in of_python(100, timed_thread(9, "python3", user=500))
    assert "GIL" not in of_python(2, timed_thread(9, "python3", user=500))


def test_waits_for_a_thread_in_calls_are_not_gil() -> None:
    sleeps = timed_thread(9, "python3", user=10, ready=80)
    assert "GIL" not in of_python(100, sleeps)
    # It wants a CPU to leave its call, and takes the lock after that.
    call = SyscallStats(18, "pwrite64", 100, 490 * MS, 5 * MS, (), 20 * MS, 450 * MS, 20 * MS)
    writes = replace(timed_thread(9, "python3", user=10, kernel=20, ready=450), syscalls=(call,))
    assert "GIL" not in of_python(100, writes)
    preempted = timed_thread(9, "python3", user=100, ready=400)
    assert "GIL" in of_python(100, preempted)


def of_python(waits: int, other: Thread) -> str:
    """What is told of waits for futexes which the other thread of the program ended."""
    peer = Waker("thread", other.tid, PID, other.name, waits, 400 * MS)
    timer = Waker("hard_irq", 0, 0, "", 20, 100 * MS)
    target = Target(PID, "app", "/usr/bin/python3.11")
    duration = window(duration_ns=TIMED_WINDOW_NS)
    sample = bare_sample(
        futex_waits(500, waits, peer, timer), other, window=duration, target=target
    )
    return next(each.text for each in judge(sample).verdict if each.rule == "wait_futex")


def test_holder_of_the_gil_is_named_by_the_chain() -> None:
    hog = ChainThread(9, PID, "hog")
    timer = Waker("hard_irq", 0, 0, "", 80, 402 * MS)
    given = Waker("thread", 9, PID, "hog", 9, 3 * MS)
    chain = WaitChain(
        410 * MS,
        (
            ChainPart((hog,), "runnable", 200 * MS),
            ChainPart((hog,), "running", 190 * MS),
            ChainPart((), "blocked", 20 * MS, "clock"),
        ),
    )
    slept = Sleep("futex", "futex", (), False, 80, 405 * MS, 5 * MS, (timer, given))
    waits = replace(timed_thread(PID, "app"), sleeps=(slept,), chain=chain)
    other = timed_thread(9, "hog", user=410)
    duration = window(duration_ns=TIMED_WINDOW_NS)
    target = Target(PID, "app", "/usr/bin/python3.11")
    judged = judge(bare_sample(waits, other, window=duration, target=target)).verdict
    text = next(each.text for each in judged if each.rule == "wait_futex")
    assert "typical of Python's interpreter lock (GIL). A timer ended 80 waits" in text
    assert (
        "It waited for hog (9) for 390.0 ms. Meanwhile hog (9) had no CPU for 200.0 ms and was on a"
        " CPU for 190.0 ms."
    ) in text
    assert "is not known" not in text


def test_a_deadline_thread_that_yields_has_done_its_work() -> None:
    yields = replace(
        SyscallStats(24, "sched_yield", 5, 400 * MS, 90 * MS), ready_ns=400 * MS, on_cpu_ns=0
    )
    waits = replace(
        timed_thread(PID, "app", ready=400),
        syscalls=(yields,),
        scheduling=Scheduling("DEADLINE", 0, 0, (0, 1)),
    )
    assert "cpu_contention" not in verdict(waits)
    other = replace(waits, scheduling=Scheduling("OTHER", 0, 0, (0, 1)))
    assert "gave up the CPU itself (sched_yield)" in verdict(other)["cpu_contention"].text
