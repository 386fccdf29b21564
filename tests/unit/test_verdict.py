"""The verdict: each rule finds its own cause, with the evidence, and an idle process has none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.analysis.verdict import RULES, judge
from kernel_delay.analysis.verdict.asleep import ASLEEP
from kernel_delay.analysis.verdict.rule import Judged, Rule, apply
from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.model import (
    CgroupLimit,
    CpuTaker,
    CpuUse,
    Finding,
    HardIrqStats,
    Intervals,
    LockWait,
    Lost,
    NewestSignal,
    OwnerActivity,
    PageFaults,
    Sample,
    Scheduling,
    Sleep,
    SoftIrqStats,
    Stopper,
    SyscallStats,
    SystemState,
    Target,
    TaskTimes,
    Thread,
    Waker,
)
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000


def sample(*threads: Thread, system_state: SystemState | None = None) -> Sample:
    return bare_sample(
        *threads, window=window(duration_ns=TIMED_WINDOW_NS), system_state=system_state
    )


def call(name: str, on_cpu: int = 0, blocked: int = 0, count: int = 1) -> SyscallStats:
    """Calls of a system call that took so many ms on a CPU and asleep."""
    total_ns = (on_cpu + blocked) * MS
    return SyscallStats(0, name, count, total_ns, total_ns, (), on_cpu * MS, 0, blocked * MS, 0)


def sleep(reason: str, ms: int, syscall: str | None = None, *wakers: Waker) -> Sleep:
    return Sleep(reason, syscall, (), False, 10, ms * MS, MS, wakers)  # type: ignore[arg-type]


def timed(thread: Thread, **times_ns: int) -> Thread:
    """The thread, with other times."""
    assert thread.time is not None
    return replace(thread, time=replace(thread.time, **times_ns))


def found(name: str, judged: Sample) -> Finding:
    (finding,) = [finding for finding in judge(judged).verdict if finding.rule == name]
    return finding


def rules_found(judged: Sample) -> list[str]:
    return [finding.rule for finding in judge(judged).verdict]


IDLE = (
    timed_thread(1, "ovs-vswitchd", user=2, kernel=1, ready=1),
    timed_thread(2, "handler1"),
    replace(
        timed_thread(3, "revalidator2", user=1, ready=2),
        syscalls=(call("poll", 1, 495),),
        sleeps=(sleep("poll", 495, "poll"),),
    ),
)

AGREED = TaskTimes(user_ns=484 * MS, system_ns=12 * MS, minor_faults=3, major_faults=0, steal_ns=0)
BUSY = replace(timed_thread(9, "revalidator9", user=485, kernel=10), task_times=AGREED)

STARVED = replace(
    timed_thread(10, "revalidator10", user=120, kernel=20, ready=300),
    cpu_taken_by=(CpuTaker(77, "stress", 30, 240 * MS, 77), CpuTaker(0, "idle", 3, 60 * MS)),
)


def test_idle_process_is_not_accused() -> None:
    assert rules_found(sample(*IDLE)) == ["asleep"]
    assert found("asleep", sample(*IDLE)).remark


def test_summed_up_threads_are_not_compared_with_one_window() -> None:
    many = replace(timed_thread(0, "short-lived", kernel=100, ready=100), threads=1000)
    assert rules_found(sample(*IDLE, many)) == ["asleep"]
    assert "cpu_contention" in rules_found(sample(*IDLE, replace(many, threads=1)))


def test_without_accounting_there_is_no_verdict() -> None:
    threads = [replace(thread, time=None) for thread in (*IDLE, BUSY, STARVED)]
    assert judge(sample(*threads)).verdict == ()


NOT_OF_IDLENESS = [rule for rule in (*RULES, USER_WORK) if rule is not ASLEEP]


@pytest.mark.parametrize("rule", NOT_OF_IDLENESS, ids=lambda rule: rule.name)
def test_no_rule_fires_on_an_idle_process(rule: Rule) -> None:
    assert not list(apply(rule, Judged(sample(*IDLE))))


def test_cpu_contention_names_who_had_the_cpu() -> None:
    finding = found("cpu_contention", sample(*IDLE, STARVED))
    assert (finding.who, finding.tid, finding.share) == ("other-process", 10, 0.6)
    assert "could run but had no CPU for 300.0 ms, 60 % of the window" in finding.text
    assert "stress (77) ran for 80 % of that" in finding.text
    assert "the CPU idled or woke up for 20 %." in finding.text
    assert finding.evidence == {
        "lost_ns": 300 * MS,
        "taker_tid": 77,
        "taker_ns": 240 * MS,
    }


def test_cpu_contention_is_whose_task_ran() -> None:
    by_idle = replace(STARVED, cpu_taken_by=(CpuTaker(0, "idle", 3, 300 * MS),))
    assert found("cpu_contention", sample(by_idle)).who == "kernel"
    by_own = replace(STARVED, cpu_taken_by=(CpuTaker(9, "revalidator9", 3, 300 * MS),))
    own = found("cpu_contention", sample(BUSY, by_own))
    assert own.who == "program"
    assert "Meanwhile revalidator9 (9) of the same process ran for" in own.text
    kworker = CpuTaker(33, "kworker/1:2", 3, 300 * MS, 33, kernel_thread=True)
    assert (
        found("cpu_contention", sample(replace(STARVED, cpu_taken_by=(kworker,)))).who == "kernel"
    )


def test_kernel_delay_that_took_the_cpu_is_named_so() -> None:
    threads = tuple(CpuTaker(tid, "kernel-delay", 3, 75 * MS, 80, is_tool=True) for tid in range(4))
    starved = replace(STARVED, cpu_taken_by=(*threads, CpuTaker(77, "stress", 9, 90 * MS, 77)))
    finding = found("cpu_contention", sample(starved))
    assert finding.who == "tool"
    assert "kernel-delay itself ran for 100 % of that time, stress (77) ran" in finding.text
    assert finding.advice == "Start kernel-delay on another CPU (taskset -c) or with nice -n 19."


def test_kernel_delay_that_hardly_ran_is_not_named() -> None:
    threads = tuple(CpuTaker(tid, "kernel-delay", 3, MS // 10, 80, is_tool=True) for tid in (4, 5))
    other = CpuTaker(77, "stress", 9, 290 * MS, 77)
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=(other, *threads))))
    assert "kernel-delay itself" not in finding.text


def test_kernel_delay_that_reports_calls_is_to_report_fewer() -> None:
    itself = CpuTaker(80, "kernel-delay", 3, 240 * MS, 80, is_tool=True)
    starved = replace(sample(replace(STARVED, cpu_taken_by=(itself,))), syscall_events=())
    advice = found("cpu_contention", starved).advice
    assert advice is not None
    assert advice.startswith("With -s DURATION_NS only longer calls are reported. Start kernel")


def test_another_kernel_delay_is_named_by_its_pid() -> None:
    other = CpuTaker(81, "kernel-delay", 3, 240 * MS, 81)
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=(other,))))
    assert finding.who == "other-process"
    assert "kernel-delay (81) ran for 80 % of that" in finding.text


def test_a_taker_that_ended_is_known_by_its_process() -> None:
    gone = CpuTaker(99, "short-lived", 3, 300 * MS, sample().target.pid)
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=(gone,))))
    assert finding.who == "program"
    assert "Meanwhile short-lived (99) of the same process ran for" in finding.text


def test_takers_that_are_not_known_are_not_named() -> None:
    unknown = replace(
        timed_thread(10, "revalidator10", ready=300),
        cpu_taken_by=(CpuTaker(77, "stress", 1, MS, 77),),
        cpu_taken_by_others_ns=99 * MS,
        cpu_taken_by_unknown_ns=200 * MS,
    )
    assert "Who had the CPU is not known" in found("cpu_contention", sample(unknown)).text


def test_ticker_that_had_the_cpu_last_is_not_blamed() -> None:
    takers = (CpuTaker(7, "hog", 30, 288 * MS, 7), CpuTaker(8, "ticker", 300, 12 * MS, 8))
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=takers)))
    assert "hog (7)" in finding.text
    assert "ticker" not in finding.text


def test_many_small_takers_are_not_named() -> None:
    takers = tuple(CpuTaker(100 + i, f"t{i}", 1, 3 * MS, 100 + i) for i in range(100))
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=takers)))
    assert "Who had the CPU is not known" in finding.text


def test_affinity_that_excludes_an_idle_cpu_is_advice() -> None:
    machine = SystemState(cpus=(CpuUse(0, 490 * MS, 0), CpuUse(1, 0, 0)))
    pinned = replace(STARVED, scheduling=Scheduling("OTHER", 0, 0, (1,)))
    finding = found("cpu_contention", sample(pinned, system_state=machine))
    assert finding.advice is not None
    assert "CPU 0 idled, but its affinity allows it CPU 1 alone" in finding.advice
    free = replace(pinned, scheduling=Scheduling("OTHER", 0, 0, (0, 1)))
    assert found("cpu_contention", sample(free, system_state=machine)).advice is None


def test_affinity_is_a_detail_where_no_cpu_idles() -> None:
    machine = SystemState(cpus=(CpuUse(0, 0, 0), CpuUse(1, 0, 0)))
    pinned = replace(STARVED, scheduling=Scheduling("OTHER", 0, 0, (1,)))
    said = "By its affinity it may run on CPU 1 alone, of 2 CPUs."
    assert said in found("cpu_contention", sample(pinned, system_state=machine)).details
    free = replace(pinned, scheduling=Scheduling("OTHER", 0, 0, (0, 1)))
    assert said not in found("cpu_contention", sample(free, system_state=machine)).details


def test_who_yields_its_cpu_lacks_none() -> None:
    waited = replace(call("sched_yield", 10, count=10_000), ready_ns=290 * MS)
    finding = found("cpu_contention", sample(replace(STARVED, syscalls=(waited,))))
    assert finding.who == "program"
    assert "It gave up the CPU itself (sched_yield) for 97 % of that time." in finding.text
    some = replace(waited, ready_ns=100 * MS)
    finding = found("cpu_contention", sample(replace(STARVED, syscalls=(some,))))
    assert "sched_yield" not in finding.text


def test_real_time_and_nice_are_advice() -> None:
    hog = CpuTaker(7, "hog", 1, 300 * MS, 7, policy="FIFO", rt_priority=50)
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=(hog,))))
    assert "hog (7), SCHED_FIFO, ran" in finding.text
    assert finding.advice is not None
    assert "lower its real-time priority (chrt)" in finding.advice
    deadline = replace(hog, policy="DEADLINE", rt_priority=0)
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=(deadline,))))
    assert finding.advice is not None
    assert "chrt --sched-runtime" in finding.advice
    nice = replace(STARVED, scheduling=Scheduling("OTHER", 19, 0, (0, 1)))
    finding = found("cpu_contention", sample(nice))
    assert finding.advice is not None
    assert finding.advice.startswith("Its nice value is 19, stress's 0: renice")
    idle = replace(STARVED, scheduling=Scheduling("IDLE", 0, 0, (0, 1)))
    finding = found("cpu_contention", sample(idle))
    assert finding.advice is not None
    assert finding.advice.startswith("It is SCHED_IDLE")


def test_no_rule_rests_on_what_is_unaccounted() -> None:
    poll = replace(call("poll", 1, 400), on_cpu_ns=0, unaccounted_ns=400 * MS)
    thread = replace(timed_thread(5, "worker51", unaccounted=500), syscalls=(poll,))
    assert judge(sample(thread)).verdict == ()


def test_the_worst_thread_is_named_and_the_others_counted() -> None:
    other = timed_thread(11, "handler11", ready=26)
    idle = timed_thread(13, "handler13")
    assert "(1 other thread too)" in found("cpu_contention", sample(other, idle, STARVED)).text
    more = timed_thread(12, "handler12", ready=26)
    judged = sample(other, STARVED, more, idle)
    assert "(2 other threads too)" in found("cpu_contention", judged).text
    judged = sample(other, STARVED, more)
    assert "all other threads of the process" in found("cpu_contention", judged).text


def test_threads_are_named_by_their_role() -> None:
    main = replace(STARVED, tid=27090, name="ovs-vswitchd")
    assert "the main thread ovs-vswitchd (27090)" in found("cpu_contention", sample(main)).text
    assert "the revalidator revalidator10 (10)" in found("cpu_contention", sample(STARVED)).text


def test_a_short_wait_in_a_short_window_is_negligible() -> None:
    thread = timed_thread(1, "a", ready=0)
    assert thread.time is not None
    for ready_ns, is_found in ((99_999, False), (100_000, True)):
        waited = replace(thread, time=replace(thread.time, ready_ns=ready_ns))
        short = bare_sample(waited, window=window(duration_ns=1_000_000))
        assert ("cpu_contention" in rules_found(short)) == is_found


def test_a_quota_is_a_limit_with_its_path() -> None:
    limit = CgroupLimit("/kubepods/pod1", 20 * MS, 100 * MS, 5, 400 * MS, False)
    thread = timed_thread(5, "a", user=100, throttled=390)
    finding = found("throttled", sample(thread, system_state=SystemState(cgroup=limit)))
    assert finding.who == "limit"
    assert finding.advice is not None
    assert "cpu.cfs_quota_us) of /kubepods/pod1, which is 20.0 ms each 100.0 ms" in finding.advice
    assert "cpu_contention" not in rules_found(sample(thread))


@pytest.mark.parametrize(
    ("used_ns", "said"),
    [
        (None, None),
        (400 * MS, "Other processes had 75 % of the CPU time that its cgroup used."),
        (110 * MS, "The process itself had 91 % of the CPU time that its cgroup used."),
        # What it ran at the edges of the window may be counted in one place alone.
        (90 * MS, "The process itself had 100 % of the CPU time that its cgroup used."),
    ],
)
def test_who_used_a_quota_is_said(used_ns: int | None, said: str | None) -> None:
    limit = CgroupLimit("/pod1", 20 * MS, 100 * MS, 5, 400 * MS, False, used_ns)
    thread = timed_thread(5, "a", user=60, kernel=40, throttled=390)
    finding = found("throttled", sample(thread, system_state=SystemState(cgroup=limit)))
    assert finding.details == (() if said is None else (said,))


def test_of_lost_time_nobody_is_said_to_have_used_a_quota() -> None:
    limit = CgroupLimit("/pod1", 20 * MS, 100 * MS, 5, 400 * MS, False, 200 * MS)
    state = SystemState(cgroup=limit)
    unknown = timed_thread(5, "a", user=90, unaccounted=60, throttled=340)
    assert found("throttled", sample(unknown, system_state=state)).details == ()
    known = timed_thread(5, "a", user=190, throttled=300)
    lost = replace(sample(known, system_state=state), lost=Lost(dropped_records=1))
    assert found("throttled", lost).details == ()


def test_idle_cpu_under_an_exhausted_quota_is_no_contention() -> None:
    idle = CpuTaker(0, "idle", 3, 390 * MS)
    thread = replace(timed_thread(5, "a", user=100, ready=400), cpu_taken_by=(idle,))
    assert "cpu_contention" in rules_found(sample(thread))
    limit = CgroupLimit("/pod1", 20 * MS, 100 * MS, 4, 380 * MS, False)
    throttled = sample(thread, system_state=SystemState(cgroup=limit))
    assert "cpu_contention" not in rules_found(throttled)


def test_steal_is_the_hypervisors() -> None:
    thread = replace(timed_thread(5, "a", user=400), task_times=replace(AGREED, steal_ns=100 * MS))
    assert found("steal", sample(thread)).who == "hypervisor"


def test_kernel_work_names_the_calls() -> None:
    thread = replace(
        timed_thread(5, "a", user=100, kernel=200),
        syscalls=(call("mmap", 60), call("clone3", 90), call("read", 1), call("munmap", 30)),
    )
    finding = found("kernel_work", sample(*IDLE, thread))
    assert finding.who == "kernel"
    assert "clone3 90.0 ms, mmap 60.0 ms, munmap 30.0 ms" in finding.text
    assert "read" not in finding.text


def test_calls_of_kernel_work_do_not_exceed_it() -> None:
    thread = replace(
        timed_thread(5, "a", kernel=183, soft_irq=60),
        syscalls=(call("write", 156), call("epoll_wait", 44), call("read", 31)),
    )
    text = found("kernel_work", sample(*IDLE, thread)).text
    shares = "Its calls, with the interrupts in them, were write 68 %, epoll_wait 19 %, read 13 %"
    assert shares in text
    assert "156" not in text


def test_call_is_judged_by_the_sum_of_its_states() -> None:
    unshare = replace(call("unshare", 115, 40, count=48), ready_ns=10 * MS)
    thread = replace(timed_thread(5, "a", user=330, kernel=115, ready=10), syscalls=(unshare,))
    finding = found("long_call", sample(thread))
    assert finding.who == "kernel"
    assert finding.text == (
        "unshare kept a (5) for 165.0 ms, 33 % of the window. That is 115.0 ms on a CPU, 40.0 ms"
        " asleep, 10.0 ms waiting for a CPU."
    )
    assert rules_found(sample(thread)) == ["long_call"]
    # What one of its states is found for is reported once.
    work = replace(call("unshare", 300, 40), ready_ns=10 * MS)
    worker = replace(timed_thread(5, "a", user=100, kernel=300, ready=10), syscalls=(work,))
    assert rules_found(sample(worker)) == ["kernel_work"]
    # What others did not take or send is no work of the kernel's.
    writes = replace(timed_thread(5, "a"), syscalls=(call("write", 5, 400),))
    writes = replace(writes, sleeps=(sleep("pipe", 400, "write"),))
    assert "long_call" not in rules_found(sample(writes))
    # Who waits in a call that is made for it may want to.
    read = replace(unshare, name="read")
    assert rules_found(sample(replace(thread, syscalls=(read,)))) == []


def test_sleep_of_a_long_call_is_reported_once() -> None:
    unshare = replace(call("unshare", 5, 460, count=48), ready_ns=0)
    asleep = replace(sleep("unknown", 460, "unshare"), stack=("register_nexthop_notifier",))
    main = bare_sample().target.pid
    thread = timed_thread(main, "a", kernel=5, user=35)
    thread = replace(thread, syscalls=(unshare,), sleeps=(asleep,))
    assert rules_found(sample(thread)) == ["long_call"]
    # Of a sleep elsewhere it says nothing.
    elsewhere = replace(thread, sleeps=(asleep, replace(asleep, syscall="ioctl", ns=470 * MS)))
    assert "wait_unknown" in rules_found(sample(elsewhere))


def test_millions_of_tiny_calls_are_the_programs() -> None:
    thread = replace(
        timed_thread(5, "a", user=250, kernel=250),
        syscalls=(call("getppid", 250, count=2_500_000),),
    )
    finding = found("kernel_work", sample(thread))
    assert finding.who == "program"
    assert "5,000,000 calls of getppid a second, of 100 ns each" in finding.text


def test_a_kernel_worker_is_no_thread_that_calls() -> None:
    worker = replace(timed_thread(12, "iou-wrk-1", kernel=400), kernel_worker=True)
    finding = found("kernel_worker", sample(*IDLE, worker))
    assert finding.who == "kernel"
    assert finding.tid == 12
    assert "iou-wrk-1 (12), which the kernel made in the process to work for it" in finding.text
    assert "kernel_work" not in rules_found(sample(*IDLE, worker))
    assert "kernel_worker" not in rules_found(sample(*IDLE, BUSY))


@pytest.mark.parametrize(
    ("calls_ms", "part"), [((100, 40), "Most"), ((60, 50, 40), "The longest part")]
)
def test_call_of_less_than_half_is_not_most(calls_ms: tuple[int, ...], part: str) -> None:
    names = ("openat", "mkdir", "unlink")
    slept = tuple(call(name, 1, ms) for name, ms in zip(names, calls_ms, strict=False))
    thread = replace(timed_thread(5, "a"), syscalls=slept)
    text = found("kernel_sleep", sample(thread)).text
    assert f"{part} of it was in openat, {calls_ms[0]}.0 ms: for a device" in text


def test_kernel_sleep_excludes_calls_that_are_made_to_wait() -> None:
    thread = replace(
        timed_thread(5, "a"),
        syscalls=(call("poll", 0, 300), call("fsync", 1, 150), call("munmap", 1, 20)),
    )
    finding = found("kernel_sleep", sample(*IDLE, thread))
    assert finding.who == "kernel"
    assert finding.share == 0.34
    assert "fsync, 150.0 ms" in finding.text
    waits = replace(thread, syscalls=thread.syscalls[:1])
    assert "kernel_sleep" not in rules_found(sample(waits))


def test_sleep_under_another_calls_name_counts_once() -> None:
    """As where the end of a call was missed: the sleep stands under the call before."""
    misnamed = sleep("pipe", 270, "read")
    thread = replace(
        timed_thread(5, "a", user=200), syscalls=(call("fsync", 1, 270),), sleeps=(misnamed,)
    )
    assert thread.time is not None
    assert thread.time.blocked_ns == 300 * MS
    finding = found("kernel_sleep", sample(thread))
    assert finding.share == 0.06
    shares = [each.share for each in judge(sample(thread)).verdict]
    assert sum(shares) == pytest.approx(0.6)


def test_who_ended_sleep_of_no_known_reason_is_told() -> None:
    other = Waker("thread", 9, 9, "other", 10, 90 * MS)
    slept = sleep("unknown", 140, "pwrite64", other)
    write = replace(timed_thread(5, "a"), syscalls=(call("pwrite64", 1, 150),), sleeps=(slept,))
    finding = found("kernel_sleep", sample(write))
    assert finding.text.endswith("other (9) ended 60 % of that time.")
    assert finding.evidence["waker_tid"] == 9
    # Most of it was too short to look at: who ended that is not known.
    more = replace(write, syscalls=(call("pwrite64", 900, 480),))
    assert "other" not in found("kernel_sleep", sample(more)).text
    by_another = replace(write, sleeps=(sleep("unknown", 140, "rename", other),))
    assert "other" not in found("kernel_sleep", sample(by_another)).text


def test_known_reason_of_a_wait_replaces_the_call() -> None:
    thread = replace(
        timed_thread(5, "a"),
        syscalls=(call("fsync", 1, 150),),
        sleeps=(sleep("disk", 149, "fsync"),),
    )
    judged = sample(thread)
    assert rules_found(judged) == ["wait_disk"]
    assert "waited for a disk in fsync for 149.0 ms, 30 % of the window" in (
        found("wait_disk", judged).text
    )


def test_who_woke_a_waiter_is_told() -> None:
    writer = Waker("thread", 4242, 4240, "slowly", 10, 380 * MS)
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("pipe", 400, "read", writer),))
    finding = found("wait_pipe", sample(waits))
    assert finding.remark
    assert finding.who == "other-process"
    assert "slowly (4242) of process 4240 ended 95 % of that" in finding.text
    own = replace(writer, pid=27090)
    waits = replace(waits, sleeps=(sleep("pipe", 400, "read", own),))
    assert found("wait_pipe", sample(waits)).who == "program"


def test_who_polls_for_another_process_is_told_of_it() -> None:
    server = Waker("thread", 4242, 4240, "slowly", 10, 380 * MS)
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("epoll", 400, "epoll_wait", server),))
    finding = found("wait_epoll", sample(waits))
    assert finding.remark
    assert finding.who == "other-process"
    assert "slowly (4242) of process 4240 ended 95 % of that" in finding.text
    assert finding.text.endswith(" Whether it had work to do is not known.")
    # Its own threads, a timeout, and nobody in particular are what an idle thread waits for.
    for waker in (
        replace(server, pid=27090),
        replace(server, kind="hard_irq", tid=0, pid=0),
        replace(server, ns=190 * MS),
    ):
        idle = replace(waits, sleeps=(sleep("epoll", 400, "epoll_wait", waker),))
        assert "wait_epoll" not in rules_found(sample(idle))


def requests(count: int, ready: int, absent: int) -> list[Thread]:
    """Threads that ended, one for each request."""
    taker = CpuTaker(7, "hog", 9, ready * MS, 7)
    return [
        replace(
            timed_thread(50 + number, "request", ready=ready, absent=absent),
            exited=True,
            cpu_taken_by=(taker,),
        )
        for number in range(count)
    ]


def test_what_many_ended_threads_lost_is_a_sum() -> None:
    finding = found("cpu_contention", sample(*IDLE, *requests(30, 4, 490)))
    assert finding.text.startswith(
        "request (30 ended threads) could run but had no CPU for 120.0 ms in all, 24 % of the"
        " window. request (50) lost the longest part of it, 4.0 ms. Meanwhile hog (7) ran for"
    )
    assert finding.share == 120 / 500
    assert finding.evidence["threads"] == 30
    # The one that lost enough by itself is among them.
    long = replace(requests(1, 50, 440)[0], tid=9)
    assert found("cpu_contention", sample(*IDLE, long, *requests(30, 4, 490))).tid == 9


@pytest.mark.parametrize(("count", "absent"), [(10, 490), (200, 0)])
def test_few_ended_threads_or_long_lives_are_no_sum(count: int, absent: int) -> None:
    assert "cpu_contention" not in rules_found(sample(*IDLE, *requests(count, 4, absent)))


def together(*ms: int) -> Sample:
    """Threads that each waited so long for a pipe, woken by another process."""
    return sample(
        *(
            replace(
                timed_thread(5 + place, "m"),
                sleeps=(
                    sleep("pipe", each, "read", Waker("thread", 77, 76, "writer", 10, each * MS)),
                    sleep("futex", 500 - each, "futex"),
                ),
            )
            for place, each in enumerate(ms)
        )
    )


def test_waits_of_several_threads_are_a_sum() -> None:
    """Whether the threads waited in turn or at once is not known."""
    finding = found("wait_pipe", together(200, 180, 100))
    assert finding.text == (
        "m (5) and 2 other threads waited for a pipe in read for 480.0 ms in all. writer (77) of"
        " process 76 ended 100 % of that time. The longest wait took 1.0 ms. Whether it had work"
        " to do is not known. m (5) waited longest, 200.0 ms."
    )
    assert finding.share == 200 / 500
    assert finding.evidence["lost_ns"] == 480 * MS
    assert finding.remark
    two = found("wait_pipe", together(200, 180))
    assert two.text.startswith("m (5) and 1 other thread waited for a pipe")


def test_sum_of_waits_has_no_story_of_its_waker() -> None:
    """Threads that wait at once do so for less time than a sum that is a bound for one."""
    judged = together(160, 160, 160)
    own = [replace(each, sleeps=(by(each.sleeps[0], 8), each.sleeps[1])) for each in judged.threads]
    writer = replace(timed_thread(8, "writer"), sleeps=(sleep("clock", 450, "clock_nanosleep"),))
    finding = found("wait_pipe", replace(judged, threads=(*own, writer)))
    assert "writer (8) of the same process ended 100 % of that time." in finding.text
    assert "Meanwhile" not in finding.text


def by(waits: Sleep, tid: int) -> Sleep:
    """The waits if that thread of the same process ended them."""
    (waker,) = waits.wakers
    return replace(waits, wakers=(replace(waker, tid=tid, pid=27090),))


@pytest.mark.parametrize("ms", [(100, 100), (240, 240, 240)])
def test_short_waits_or_too_many_are_not_reported(ms: tuple[int, ...]) -> None:
    assert "wait_pipe" not in rules_found(together(*ms))


def test_kernel_worker_waiting_for_work_is_no_remark() -> None:
    waker = Waker("thread", 7, 7, "main", 20, 300 * MS)
    idle = replace(timed_thread(5, "iou-wrk-7"), sleeps=(sleep("io_uring", 400, None, waker),))
    assert "wait_io_uring" in rules_found(sample(idle))
    assert "wait_io_uring" not in rules_found(sample(replace(idle, kernel_worker=True)))


def test_many_wakers_of_one_name_are_told_together() -> None:
    children = [Waker("thread", tid, tid, "sh", 1, 40 * MS) for tid in range(100, 110)]
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("child", 400, "wait4", *children),))
    finding = found("wait_child", sample(waits))
    assert "10 processes named sh ended 100 % of that" in finding.text
    main = replace(children[0], ns=500 * MS)
    waits = replace(waits, sleeps=(sleep("child", 400, "wait4", main, *children[1:]),))
    text = found("wait_child", sample(waits)).text
    assert "sh (100) ended 58 % of that" in text


def test_who_accepts_connections_waits_for_no_data() -> None:
    accepts = replace(
        timed_thread(27090, "main"), sleeps=(sleep("socket_receive", 480, "accept4"),)
    )
    text = found("wait_socket_receive", sample(accepts)).text
    assert "waited for somebody to connect to it in accept4 for" in text
    reads = replace(accepts, sleeps=(*accepts.sleeps, sleep("socket_receive", 10, "recvfrom")))
    assert "for data on a socket" in found("wait_socket_receive", sample(reads)).text


def test_interrupts_are_nobodys_doing() -> None:
    irq = Waker("soft_irq", 0, 0, "", 10, 300 * MS)
    worker = Waker("thread", 7, 7, "kworker", 1, 90 * MS)
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("disk", 400, "fsync", irq, worker),))
    assert "ended" not in found("wait_disk", sample(waits)).text


def test_thread_with_a_known_waker_is_reported_first() -> None:
    other = Waker("thread", 9, 27090, "owner", 10, 300 * MS)
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("futex", 300, "futex", other),))
    idle = replace(timed_thread(27090, "main"), sleeps=(sleep("futex", 500, "futex"),))
    finding = found("wait_futex", sample(idle, waits))
    assert finding.tid == 5
    assert "owner (9)" in finding.text


def test_pythons_lock_of_the_interpreter_is_thought_of() -> None:
    waker = Waker("thread", 9, 27090, "computer", 80, 300 * MS)
    asked = Waker("hard_irq", 0, 0, "", 20, 100 * MS)
    switches = replace(sleep("futex", 400, "futex", waker, asked), count=100)
    waits = replace(timed_thread(5, "a"), sleeps=(switches,))
    target = Target(27090, "app", "/usr/bin/python3.11")
    busy = timed_thread(9, "computer", user=410)
    finding = found("wait_futex", replace(sample(waits, busy), target=target))
    assert "computer (9) of the same process ended 75 % of that time." in finding.text
    assert "Such waits are typical of Python's interpreter lock (GIL)." in finding.text
    # Where none lasted until it asks, code in C may have given the lock away.
    never = replace(waits, sleeps=(replace(switches, wakers=(waker,)),))
    assert "GIL" not in found("wait_futex", replace(sample(never, busy), target=target)).text
    assert finding.advice is not None
    assert finding.advice.endswith(": kernel-delay where -p 27090")
    of_c = found("wait_futex", sample(waits, busy))
    assert of_c.advice is not None
    assert "--wakers stacks" in of_c.advice
    assert "Python" not in of_c.text
    # Its waits time out, and then it asks for the lock.
    timer = Waker("hard_irq", 0, 0, "", 80, 402 * MS)
    given = replace(waker, count=9, ns=3 * MS)
    slept = replace(sleep("futex", 405, "futex", timer, given), count=89)
    timed = replace(timed_thread(27090, "a"), sleeps=(slept,))
    text = found("wait_futex", replace(sample(timed, busy), target=target)).text
    assert "(GIL). A timer ended 80 waits, after 5.0 ms each." in text
    assert "lock or for work" not in text
    for wakers in ((timer,), (replace(timer, count=40), given)):
        other = replace(timed, sleeps=(replace(slept, wakers=wakers),))
        text = found("wait_futex", replace(sample(other, busy), target=target)).text
        assert "Python" not in text
    # Who polls a queue waits as long, while nobody has the lock.
    idle = timed_thread(9, "puts", user=10)
    assert "Python" not in found("wait_futex", replace(sample(timed, idle), target=target)).text
    # Another process's is no lock of an interpreter.
    other = replace(waits, sleeps=(sleep("futex", 400, "futex", replace(waker, pid=7)),))
    assert "Python" not in found("wait_futex", replace(sample(other, busy), target=target)).text


@pytest.mark.parametrize("asked", [1, 3, 19])
def test_few_switches_among_long_waits_are_not_typical(asked: int) -> None:
    """Who waits for an event may wait for the interpreter too, now and then."""
    timer = Waker("hard_irq", 0, 0, "", asked, asked * 5 * MS)
    setter = Waker("thread", 9, 27090, "setter", 1, 100 * MS)
    slept = replace(sleep("futex", 480, "futex", timer, setter), count=asked + 2)
    waits = replace(timed_thread(27090, "a"), sleeps=(slept,))
    busy = timed_thread(9, "busy", user=410)
    target = Target(27090, "app", "/usr/bin/python3.11")
    text = found("wait_futex", replace(sample(waits, busy), target=target)).text
    assert "GIL" not in text
    assert "timer ended" not in text


def test_a_wait_for_a_known_lock_is_told_once() -> None:
    lock = LockWait(0xABC0, 9, "owner", 1, 500 * MS)
    main = replace(
        timed_thread(27090, "main"), sleeps=(sleep("futex", 500, "futex"),), lock_waits=(lock,)
    )
    assert rules_found(sample(main)) == ["lock"]


def test_a_lock_names_its_owner() -> None:
    thread = replace(
        timed_thread(5, "a"), lock_waits=(LockWait(0xABC0, 9, "revalidator9", 40, 90 * MS),)
    )
    finding = found("lock", sample(*IDLE, thread))
    assert finding.who == "program"
    assert "revalidator9 (9) held the lock at 0xabc0 for 100 % of that" in finding.text
    assert finding.advice == "Option -s shows where in the program it waits."
    # With that option the report shows it.
    assert found("lock", replace(sample(*IDLE, thread), syscall_events=())).advice is None


def test_several_locks_of_one_owner_have_no_address() -> None:
    thread = replace(
        timed_thread(5, "a"), lock_waits=(LockWait(0, 9, "revalidator9", 40, 90 * MS),)
    )
    assert "revalidator9 (9) held several such locks for" in found("lock", sample(thread)).text


def held_by(owner: Thread, ms: int, tid: int = 5, address: int = 0xABC0) -> Thread:
    wait = LockWait(address, owner.tid, owner.name, 1, ms * MS)
    return replace(timed_thread(tid, f"waiter{tid}"), lock_waits=(wait,))


def test_a_chain_ends_where_the_time_went() -> None:
    owner = replace(timed_thread(9, "b", user=10), sleeps=(sleep("disk", 480, "fsync"),))
    judged = sample(held_by(owner, 490), owner)
    finding = found("lock", judged)
    assert (
        "b (9) slept in fsync, waiting for a disk, for at least 96 % of that time." in finding.text
    )
    # It is reported once.
    assert rules_found(judged) == ["lock"]


def test_a_chain_adds_up_what_a_call_slept_for() -> None:
    slept = (sleep("disk", 260, "fsync"), sleep("page_cache", 220, "fsync"))
    owner = replace(timed_thread(9, "b", user=10), sleeps=slept)
    judged = sample(held_by(owner, 490), owner)
    text = found("lock", judged).text
    assert "b (9) slept in fsync, waiting for a disk, for at least 96 % of that time." in text
    assert rules_found(judged) == ["lock"]


def test_a_chain_ends_in_an_owners_own_wish() -> None:
    owner = replace(timed_thread(9, "b"), sleeps=(sleep("clock", 490, "nanosleep"),))
    text = found("lock", sample(held_by(owner, 490), owner)).text
    assert "b (9) slept in nanosleep for at least 98 % of that time." in text


def test_a_chain_goes_through_locks() -> None:
    last = replace(timed_thread(9, "c"), sleeps=(sleep("disk", 500, "fsync"),))
    middle = held_by(last, 490, tid=7, address=0xDEF0)
    finding = found("lock", sample(held_by(middle, 495), middle, last))
    assert "held by c (9)," in finding.text
    assert "slept in fsync" in finding.text


def test_a_chain_of_one_lock_is_none() -> None:
    # They have it in turn: who has it does not wait for it.
    one, other = timed_thread(7, "one"), timed_thread(9, "other")
    one, other = held_by(other, 490, tid=7), held_by(one, 495, tid=9)
    text = found("lock", sample(one, other)).text
    assert "which itself waited" not in text
    assert "deadlock" not in text


def test_owner_waiting_for_other_futexes_is_in_no_chain() -> None:
    last = replace(timed_thread(9, "c"), sleeps=(sleep("disk", 500, "fsync"),))
    middle = held_by(last, 300, tid=7, address=0xDEF0)
    middle = replace(middle, syscalls=(call("futex", blocked=490),))
    text = found("lock", sample(held_by(middle, 495), middle, last)).text
    assert "held by c (9)" not in text
    assert "waiter7 (7) slept in futex" in text


def test_owner_of_a_lock_with_several_owners_is_uncertain() -> None:
    caster, herd = timed_thread(7, "caster"), timed_thread(8, "herd")
    waiter, second = held_by(caster, 400), held_by(herd, 300, tid=6)
    text = found("lock", sample(waiter, second, caster, herd)).text
    assert "caster (7) had the lock at 0xabc0 when waits of 100 % of that time began or" in text
    # Unless it ended the waits itself.
    activity = OwnerActivity(390 * MS, 0, 0, 0, None, "unknown")
    (wait,) = waiter.lock_waits
    seen_to_end = replace(waiter, lock_waits=(replace(wait, owner=activity),))
    assert "caster (7) held" in found("lock", sample(seen_to_end, second, caster, herd)).text
    # And did not wait for it meanwhile.
    waits_too = held_by(herd, 200, tid=7)
    text = found("lock", sample(seen_to_end, waits_too, herd)).text
    # What had begun before anyone looked has the owner of then.
    assert "when waits of 100 % of that time began or were first seen. Others had it too." in text


def test_waker_from_other_waits_is_no_lock_owner() -> None:
    owner, feeder = timed_thread(7, "owner"), Waker("thread", 8, 27090, "feeder", 9, 300 * MS)
    waiter = held_by(owner, 190)
    waiter = replace(waiter, sleeps=(sleep("futex", 490, "futex", feeder),))
    lock, futex = found("lock", sample(waiter, owner)), found("wait_futex", sample(waiter, owner))
    assert "feeder" not in lock.text
    # Its sleeps for the lock are among those of which it is known who ended them.
    assert "feeder" not in futex.text
    assert "longest" not in futex.text


def test_work_of_an_owner_that_only_ran_is_reported() -> None:
    both = timed_thread(9, "b", user=150, kernel=100)
    assert "b (9) was on a CPU for 100 % of that time." in seen(both)
    kernel = timed_thread(9, "b", user=5, kernel=200)
    assert "b (9) was at work in the kernel for 100 % of that time." in seen(kernel)


def test_owner_is_not_blamed_for_activity_at_other_times() -> None:
    owner = replace(timed_thread(9, "b"), sleeps=(sleep("disk", 240, "fsync"),))
    judged = sample(held_by(owner, 250), owner)
    assert "fsync" not in found("lock", judged).text
    assert set(rules_found(judged)) == {"lock", "wait_disk"}


@given(st.integers(26, 500), st.integers(0, 500), st.integers(0, 500))
def test_chain_claims_no_more_than_the_certain_overlap(waited: int, slept: int, begin: int) -> None:
    """Whenever in the window the owner slept, the overlap is at least what is claimed."""
    owner = replace(timed_thread(9, "b"), sleeps=(sleep("disk", slept, "fsync"),))
    judged = sample(held_by(owner, waited), owner)
    text = found("lock", judged).text
    begin = min(begin, 500 - slept)
    overlap = max(0, min(waited, begin + slept) - begin)
    if "b (9) slept" in text:
        claimed = int(text.rpartition(" % of that time")[0].split()[-1])
        assert claimed <= 100 * overlap / waited + 1


def seen(owner: Thread, *, known: int = 200, **ms: int) -> str:
    """What is said of an owner that was seen to do that, so many ms of a wait of 200 ms."""
    parts = {f"{part}_ns": ms.get(part, 0) * MS for part in ("blocked", "ready", "held")}
    activity = OwnerActivity(known_ns=known * MS, syscall="fsync", reason="disk", **parts)
    waiting = held_by(owner, 200)
    (wait,) = waiting.lock_waits
    waiting = replace(waiting, lock_waits=(replace(wait, owner=activity),))
    return found("lock", sample(waiting, owner)).text


def test_activity_of_an_owner_during_the_wait_is_reported() -> None:
    owner = replace(timed_thread(9, "b", frozen=150), sleeps=(sleep("disk", 200, "fsync"),))
    assert "b (9) slept in fsync, waiting for a disk, for 93 % of that time." in seen(
        owner, blocked=186
    )
    assert "b (9) had no CPU itself for 60 % of that time." in seen(owner, ready=120, blocked=80)
    assert "b (9) was frozen itself for 75 % of that time." in seen(owner, held=150)
    busy = timed_thread(9, "b", user=200)
    assert "b (9) ran its own code for 100 % of that time." in seen(busy)
    # No one thing was most of it, or most of the waits were ended by others.
    held = "b (9) held the lock at 0xabc0 for 100 % of that time. Option -s shows where in the"
    assert held in seen(owner, ready=70, blocked=70)
    assert held in seen(owner, known=90, blocked=90)


def test_activity_in_a_part_of_the_wait_is_a_bound() -> None:
    text = seen(timed_thread(9, "b", ready=200), known=104, ready=54)
    assert "b (9) held the lock at 0xabc0 for 100 % of that time." in text
    assert "b (9) had no CPU itself for at least 27 % of that time." in text


def test_locks_beyond_those_listed_count() -> None:
    listed = LockWait(0xABC0, 9, "owner", 1, 100 * MS)
    slept = (sleep("futex", 300, "futex"),)
    thread = replace(timed_thread(27090, "a"), lock_waits=(listed,), sleeps=slept)
    others = replace(thread, lock_waits_others_ns=200 * MS)
    text = found("lock", sample(others)).text
    assert "for 300.0 ms, 60 % of the window" in text
    assert "owner (9) held the lock at 0xabc0 for 33 % of that time." in text
    assert rules_found(sample(thread)) == ["lock", "wait_futex"]
    assert rules_found(sample(others)) == ["lock"]


def test_activity_of_an_owner_is_reported_once() -> None:
    owner = replace(timed_thread(9, "b"), sleeps=(sleep("disk", 200, "fsync"),))
    waiting = held_by(owner, 200)
    activity = OwnerActivity(200 * MS, 190 * MS, 0, 0, "fsync", "disk")
    (wait,) = waiting.lock_waits
    waiting = replace(waiting, lock_waits=(replace(wait, owner=activity),))
    assert rules_found(sample(waiting, owner)) == ["lock"]


def test_interrupt_load_names_the_interrupt() -> None:
    thread = replace(
        timed_thread(5, "a", user=400, hard_irq=10, soft_irq=40),
        hard_irqs=(HardIrqStats("eth0", 100, 10 * MS, MS),),
        soft_irqs=(SoftIrqStats(3, "net_rx", 100, 40 * MS, MS),),
    )
    finding = found("interrupt_load", sample(*IDLE, thread))
    assert finding.who == "kernel"
    assert "Most of it was soft net_rx, 40.0 ms." in finding.text
    own = replace(thread, own_soft_irq_ns=40 * MS)
    assert "interrupt_load" not in rules_found(sample(own))
    assert "smp_affinity" in finding.text
    of_rcu = replace(thread, soft_irqs=(SoftIrqStats(9, "rcu", 100, 40 * MS, MS),))
    assert "smp_affinity" not in found("interrupt_load", sample(of_rcu)).text


def test_interrupt_of_less_than_half_is_not_most() -> None:
    thread = timed_thread(5, "a", user=400, hard_irq=50)
    irqs = tuple(HardIrqStats(f"eth{n}", 100, ms * MS, MS) for n, ms in enumerate((20, 15, 15)))
    text = found("interrupt_load", sample(replace(thread, hard_irqs=irqs))).text
    assert "The longest part of it was eth0, 20.0 ms." in text


@pytest.mark.parametrize(
    ("irq", "interrupts", "signals", "is_said"),
    [
        ("local timer", 50_000, 49_900, True),
        ("arch_timer", 50_000, 49_900, True),
        ("local timer", 500_000, 49_900, False),
        ("local timer", 500, 499, False),
        ("eth0", 50_000, 49_900, False),
    ],
)
def test_signals_that_come_as_often_as_a_timer_interrupts_may_be_why(
    irq: str, interrupts: int, signals: int, is_said: bool
) -> None:
    thread = timed_thread(5, "a", user=400, hard_irq=50)
    hard_irqs = (HardIrqStats(irq, interrupts, 50 * MS, MS),)
    signalled = replace(thread, hard_irqs=hard_irqs, signals=signals)
    text = found("interrupt_load", sample(signalled)).text
    assert ("99,800 signals a second: a timer that sends them" in text) == is_said
    assert ("signals" in text) == is_said


@pytest.mark.parametrize(
    ("newest", "sentence"),
    [
        (NewestSignal(14, "timer"), "SIGALRM, sent by a timer."),
        (NewestSignal(23, "itself"), "SIGURG, sent by its own process."),
        (NewestSignal(10, "process", 77, "storm"), "SIGUSR1, sent by storm (77)."),
        (NewestSignal(10, "process", 77), "SIGUSR1, sent by process 77, which has exited."),
        (NewestSignal(37, "process"), "SIGRTMIN+3, sent by another process."),
        (NewestSignal(29, "kernel"), "SIGIO, sent by the kernel."),
    ],
)
def test_newest_of_many_signals_has_its_sender(newest: NewestSignal, sentence: str) -> None:
    thread = replace(
        timed_thread(5, "a", user=450),
        task_times=TaskTimes(user_ns=50 * MS, system_ns=400 * MS, minor_faults=0, major_faults=0),
        newest_signal=newest,
    )
    many = found("doubtful_user", sample(replace(thread, signals=50_000))).text
    assert f"100,000 signals a second. The newest was {sentence}" in many
    few = found("doubtful_user", sample(replace(thread, signals=5))).text
    assert "newest" not in few


def test_an_interrupt_is_no_more_than_what_others_raised() -> None:
    irq = SoftIrqStats(3, "net_rx", 9, 300 * MS, MS)
    thread = replace(timed_thread(5, "a", soft_irq=300), soft_irqs=(irq,), own_soft_irq_ns=200 * MS)
    text = found("interrupt_load", sample(thread)).text
    assert "for 100.0 ms, 20 % of the window" in text
    assert "Most of it was soft net_rx." in text
    assert "300.0" not in text


def test_stopped_is_found_and_the_tracer_named() -> None:
    thread = timed_thread(5, "a", stopped=5)
    finding = found("stopped", sample(*IDLE, thread))
    assert finding.who == "person"
    assert "5.0 ms, 1 % of the window" in finding.text
    resumes = "kill -CONT 27090 resumes it if it is still stopped"
    terminal = "and fg in its shell if it uses its terminal in the background"
    assert finding.advice == f"{resumes}, {terminal}."
    assert "stopped" not in rules_found(sample(timed_thread(5, "a", stopped=4)))
    traced = sample(thread, system_state=SystemState(tracer=("strace", 99)))
    assert "Meanwhile strace (99) traced it." in found("stopped", traced).text
    for stopper, said in (
        (Stopper(19, 7, "bash", alone=True), "It was stopped by SIGSTOP, which bash (7) sent."),
        (Stopper(19, 7, alone=True), "It was stopped by SIGSTOP of process 7, which is gone."),
        (Stopper(20, 0, alone=True), "It was stopped by SIGTSTP. kill -CONT 27090 resumes it"),
        (
            Stopper(21, 0, alone=True),
            "It was stopped by SIGTTIN. It reads from a terminal in the background: fg in its shell"
            " resumes it.",
        ),
    ):
        signalled = sample(thread, system_state=SystemState(stopper=stopper))
        assert said in found("stopped", signalled).text
    # The tracer of a thread that has ended is not known.
    assert "gone" not in found("stopped", sample(thread)).text


def test_tracer_that_alone_stopped_it_is_the_cause() -> None:
    thread = timed_thread(5, "a", stopped=400)
    alone = SystemState(tracer=("gdb", 99), tracer_stopped=True)
    finding = found("stopped", sample(thread, system_state=alone))
    assert "80 % of the window. gdb (99), its tracer, stopped it." in finding.text
    assert finding.advice == "To resume it, detach or end gdb: SIGCONT does not."
    left = replace(alone, tracer_left=True)
    finding = found("stopped", sample(thread, system_state=left))
    assert "gdb (99), its tracer, stopped it, and has left it since." in finding.text
    assert finding.advice is None


def test_last_stopper_is_not_blamed_for_all_stops() -> None:
    around = SystemState(stopper=Stopper(19, 7, "blip"))
    text = found("stopped", sample(timed_thread(5, "a", stopped=200), system_state=around)).text
    assert "stopped by" not in text
    assert " The last signal to stop it was SIGSTOP, which blip (7) sent" in text


def test_tracer_is_not_blamed_for_a_possible_signal_stop() -> None:
    stopped = timed_thread(5, "a", stopped=400)
    traced = SystemState(tracer=("strace", 99))
    finding = found("stopped", sample(stopped, system_state=traced))
    assert "strace (99) traced it. strace stopped it, or a signal did (as SIGSTOP)." in finding.text
    assert finding.advice is None
    # Also where it stopped it shortly besides.
    short = replace(stopped, stopped=Intervals(300, 30 * MS, 9_000, 900_000))
    assert found("stopped", sample(short, system_state=traced)).advice is None
    often = replace(stopped, stopped=Intervals(300, 399 * MS, 9_000, 9 * MS))
    advice = found("stopped", sample(often, system_state=traced)).advice
    assert advice == "End strace if it is not needed."
    signalled = replace(traced, stopper=Stopper(19, 7, "bash"))
    finding = found("stopped", sample(often, system_state=signalled))
    assert "traced it. The last signal to stop it was SIGSTOP, which bash (7) sent." in finding.text
    assert "End strace" not in (finding.advice or "")


def test_frozen_is_found() -> None:
    finding = found("frozen", sample(timed_thread(5, "a", frozen=200)))
    assert finding.who == "person"
    assert "freezer" in finding.text


def test_the_freezer_that_is_still_on_is_named() -> None:
    quota = CgroupLimit("/pods", 20 * MS, 100 * MS, 0, 0, True)
    files = ("/cg/freezer/a b/freezer.state", "/cg/unified/box/cgroup.freeze")
    frozen = SystemState(cgroup=quota, freezers=files)
    finding = found("frozen", sample(timed_thread(5, "a", frozen=200), system_state=frozen))
    assert finding.advice == (
        "Thaw it: echo THAWED >'/cg/freezer/a b/freezer.state'"
        " && echo 0 >/cg/unified/box/cgroup.freeze"
    )
    assert "/pods" not in finding.text


def test_all_tasks_of_one_name_are_one_figure() -> None:
    """Those that have a tenth each are not told apart from the rest of their crowd."""
    takers = tuple(CpuTaker(100 + n, "cc1", 5, ms * MS) for n, ms in enumerate((60, 30, 12, 12)))
    thread = replace(timed_thread(5, "a", ready=200), cpu_taken_by=takers)
    text = found("cpu_contention", sample(thread)).text
    assert "4 tasks called cc1 ran for 57 % of that time" in text
    assert "cc1 (100)" not in text


@pytest.mark.parametrize("unaccounted", [0, 300])
def test_process_frozen_now_is_not_called_asleep(unaccounted: int) -> None:
    """Version 1's freezer leaves threads asleep, or since when they are frozen unknown."""
    frozen = SystemState(freezers=("/cg/ice/freezer.state",))
    threads = [
        timed_thread(tid, "a", unaccounted=unaccounted, frozen=1 if tid == 6 else 0)
        for tid in (5, 6)
    ]
    (finding,) = judge(sample(*threads, system_state=frozen)).verdict
    assert finding.rule == "frozen"
    assert finding.text.startswith("a (5) may have been frozen by its cgroup's freezer for ")
    assert "It is frozen now, and since when is not known." in finding.text
    assert finding.advice == "Thaw it: echo THAWED >/cg/ice/freezer.state"
    assert not [each for each in judge(sample(*threads)).verdict if each.rule == "frozen"]


def test_page_faults_are_found() -> None:
    thread = replace(
        timed_thread(5, "a", kernel=20), page_faults=PageFaults(1234, 20 * MS, 80 * MS)
    )
    finding = found("page_faults", sample(*IDLE, thread))
    assert finding.who == "kernel"
    assert "1,234 page faults kept a (5) for 100.0 ms" in finding.text
    assert "The thread slept 80.0 ms of that time." in finding.text


def test_user_work_acquits_the_kernel_only_without_contrary_evidence() -> None:
    alone = found("user_work", sample(*IDLE, BUSY))
    assert (alone.who, alone.remark) == ("program", True)
    assert alone.text.startswith("the kernel is not to blame: the revalidator revalidator9 (9)")
    against = [
        sample(BUSY, STARVED),
        sample(replace(BUSY, task_times=replace(AGREED, steal_ns=None))),
        replace(sample(BUSY), lost=Lost(missed_events=1)),
        replace(sample(BUSY), lost=Lost(dropped_records=1)),
        sample(timed(BUSY, unaccounted_ns=1)),
    ]
    for judged in against:
        assert "not to blame" not in found("user_work", judged).text


def test_user_time_the_kernel_counts_as_system_is_doubtful() -> None:
    times = TaskTimes(user_ns=20 * MS, system_ns=480 * MS, minor_faults=500_000, major_faults=0)
    faulting = replace(BUSY, task_times=times)
    judged = sample(faulting)
    assert rules_found(judged) == ["doubtful_user"]
    assert "1,000,000 page faults a second" in found("doubtful_user", judged).text
    signalled = replace(faulting, task_times=replace(times, minor_faults=0), signals=100_000)
    assert "200,000 signals a second" in found("doubtful_user", sample(signalled)).text
    ticks = replace(BUSY, task_times=replace(AGREED, system_ns=40 * MS))
    assert rules_found(sample(ticks)) == ["user_work"]
    denials = SyscallStats(110, "getppid", 0, 0, 0, without_entry=3_000_000)
    denied = replace(faulting, task_times=replace(times, minor_faults=0), syscalls=(denials,))
    finding = found("doubtful_user", sample(denied))
    assert "6,000,000 system calls denied at their entry a second" in finding.text


def test_entry_and_exit_cost_of_calls_is_kernel_work() -> None:
    # As measured of getppid(2): stime has 140 ns more of each call than is between its events.
    calls = 1_500_000
    times = TaskTimes(user_ns=180 * MS, system_ns=310 * MS, minor_faults=0, major_faults=0)
    thread = replace(
        timed_thread(9, "revalidator9", user=390, kernel=100),
        syscalls=(call("getppid", 100, count=calls),),
        task_times=replace(times, steal_ns=0),
    )
    assert rules_found(sample(thread)) == ["kernel_work"]
    assert found("kernel_work", sample(thread)).evidence["lost_ns"] == 310 * MS
    # The way in and out took longer than what the calls did.
    assert "Some of it was in getppid 100.0 ms." in found("kernel_work", sample(thread)).text
    edges = "About 210.0 ms of it went into entering and leaving calls; the tables count that"
    assert edges in found("kernel_work", sample(thread)).text
    # Interrupts in calls are no part of it: with them the parts would be more than all of it.
    interrupted = replace(thread, syscalls=(call("getppid", 103, count=calls),))
    text = found("kernel_work", sample(interrupted)).text
    assert "Its calls, with the interrupts in them, were getppid 100 %." in text
    # More than calls can take stays doubtful.
    few = replace(thread, syscalls=(call("getppid", 100, count=calls // 100),))
    assert "doubtful_user" in rules_found(sample(few))


def test_a_pmd_that_spins_by_design_is_no_finding() -> None:
    pmd = replace(timed(BUSY, user_ns=500 * MS), name="pmd-c01/id:6")
    assert rules_found(sample(pmd)) == []


def test_a_pmd_is_not_blamed_for_its_own_polling() -> None:
    polls = (call("sched_yield", 120, count=900_000), call("recvmmsg", 200, count=900_000))
    pmd = replace(timed_thread(6, "pmd-c01/id:6", user=100, kernel=320), syscalls=polls)
    assert rules_found(sample(pmd)) == []
    other = replace(pmd, name="worker6")
    assert rules_found(sample(other)) == ["kernel_work"]
    # Sending is work, and only that is.
    sends = replace(pmd, time=None if pmd.time is None else replace(pmd.time, kernel_ns=470 * MS))
    sends = replace(sends, syscalls=(*polls, call("sendmsg", 150)))
    text = found("kernel_work", sample(sends)).text
    assert "for 150.0 ms" in text
    assert "Most of it was in sendmsg 150.0 ms." in text
    assert "recvmmsg" not in text


def test_taker_of_a_pmds_cpu_is_named_despite_yields() -> None:
    yields = replace(call("sched_yield", 10, count=10_000), ready_ns=290 * MS)
    pmd = replace(STARVED, name="pmd-c01/id:6", syscalls=(yields,))
    finding = found("cpu_contention", sample(pmd))
    assert "stress (77) ran for 80 % of that" in finding.text
    assert "gave up itself" not in finding.text


def test_user_work_acquits_nobody_beside_long_waits_in_futexes() -> None:
    waits = timed(BUSY, user_ns=300 * MS, blocked_ns=200 * MS)
    idle = replace(waits, sleeps=(sleep("futex", 160, "futex"),))
    assert "not to blame" in found("user_work", sample(idle)).text
    long = replace(waits, sleeps=(sleep("futex", 170, "futex"),))
    assert "not to blame" not in found("user_work", sample(long)).text


def test_tracer_that_stops_it_at_calls_is_a_cause() -> None:
    times = TaskTimes(user_ns=10 * MS, system_ns=90 * MS, minor_faults=0, major_faults=0)
    thread = replace(
        timed_thread(9, "a", user=100, stopped=400),
        stopped=Intervals(300, 399 * MS, 9_000, 9 * MS),
        task_times=times,
    )
    traced = sample(thread, system_state=SystemState(tracer=("strace", 99)))
    text = found("doubtful_user", traced).text
    assert "It had strace (99), which stopped it at its calls." in text


def test_user_work_acquits_no_kernel_that_denied_calls() -> None:
    denials = SyscallStats(110, "getppid", 0, 0, 0, without_entry=3_400_000)
    denied = replace(BUSY, syscalls=(denials,))
    finding = found("user_work", sample(*IDLE, denied))
    assert "not to blame" not in finding.text
    assert "what the kernel took for 3,400,000 system calls that had no entry" in finding.text
    # Another thread's are no part of this one's time, but what they took is not known.
    other = replace(IDLE[0], syscalls=(denials,))
    finding = found("user_work", sample(other, BUSY))
    assert "not to blame" not in finding.text
    assert "no entry" not in finding.text


def test_user_work_acquits_no_kernel_that_handed_it_signals_in_step_with_its_ticks() -> None:
    """These then find the thread in its own code alone."""
    finding = found("user_work", sample(*IDLE, replace(BUSY, signals=100_000)))
    assert "not to blame" not in finding.text
    assert "It also had 200,000 signals a second" in finding.text
    few = found("user_work", sample(*IDLE, replace(BUSY, signals=100)))
    assert "not to blame" in few.text
    assert "signals" not in few.text


@pytest.mark.parametrize(
    ("rule", "part", "least"),
    [
        ("cpu_contention", "ready", 25),
        ("kernel_work", "kernel", 125),
        ("interrupt_load", "soft_irq", 25),
        ("user_work", "user", 250),
        ("throttled", "throttled", 5),
    ],
)
def test_thresholds_are_shares_of_the_window(rule: str, part: str, least: int) -> None:
    for ms, is_found in ((least, True), (least - 1, False)):
        times = TaskTimes(ms * MS, 0, 0, 0) if part == "user" else None
        thread = replace(timed_thread(5, "a", **{part: ms}), task_times=times)
        assert (rule in rules_found(sample(thread))) == is_found


def test_the_worst_comes_first_and_remarks_last() -> None:
    judged = judge(sample(BUSY, STARVED, timed_thread(6, "s", stopped=400))).verdict
    assert [finding.rule for finding in judged] == ["stopped", "cpu_contention", "user_work"]
    assert [finding.share for finding in judged] == [0.8, 0.6, 0.97]


@pytest.mark.parametrize(("own_ms", "is_said"), [(230, True), (120, False)])
def test_own_code_beside_delays_of_other_threads_is_a_remark(own_ms: int, is_said: bool) -> None:
    own = replace(timed_thread(9, "app", user=own_ms), task_times=TaskTimes(own_ms * MS, 0, 0, 0))
    first, *others = judge(sample(own, STARVED)).verdict
    assert first.rule == "cpu_contention"
    said = [each for each in others if each.rule == "user_work"]
    assert bool(said) == is_said
    assert all(each.remark and "not to blame" not in each.text for each in said)


def test_own_code_of_a_thread_that_lost_more_is_not_said() -> None:
    starved = replace(timed_thread(9, "app", user=200, ready=250), task_times=AGREED)
    assert rules_found(sample(starved)) == ["cpu_contention"]
