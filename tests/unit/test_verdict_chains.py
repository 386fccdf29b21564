"""The verdict: who is behind who is behind a wait, and what is said of limits and crowds."""

import pytest
from msgspec.structs import replace

from kernel_delay.model import (
    CpuTaker,
    CpuUse,
    CpuWeights,
    LockWait,
    MemoryLimit,
    OwnerActivity,
    PageFaults,
    Sample,
    Scheduling,
    Sleep,
    SleepReason,
    SyscallStats,
    SystemState,
    Waker,
)
from tests.unit.samples import timed_thread
from tests.unit.test_verdict import (
    AGREED,
    BUSY,
    MS,
    STARVED,
    call,
    found,
    held_by,
    rules_found,
    sample,
    sleep,
)

PID = 27090


def test_waits_too_short_to_inspect_are_not_owners_work() -> None:
    # Of what it was seen to do, all but 20 ms is left: it was on a CPU for 60 ms.
    owner = replace(timed_thread(9, "b", kernel=60), sleeps=(sleep("disk", 440, "fsync"),))
    waiting = held_by(owner, 490)
    (wait,) = waiting.lock_waits
    activity = OwnerActivity(490 * MS, 20 * MS, 0, 0, "fsync", "disk")
    waiting = replace(waiting, lock_waits=(replace(wait, owner=activity),))
    text = found("lock", sample(waiting, owner)).text
    assert "work in the kernel" not in text
    assert "b (9) slept in fsync, waiting for a disk, for at least 88 % of that time." in text


def test_owners_call_with_waits_and_work_is_reported() -> None:
    fsync = replace(call("fsync", 170, 180), ready_ns=110 * MS)
    owner = timed_thread(9, "b", kernel=170, ready_woken=110)
    text = found("lock", sample(held_by(owner, 490), replace(owner, syscalls=(fsync,)))).text
    assert "b (9) was in fsync for at least 92 % of that time." in text
    # It may have been in it before and after a short wait.
    text = found("lock", sample(held_by(owner, 70), replace(owner, syscalls=(fsync,)))).text
    assert "fsync" not in text


@pytest.mark.parametrize(("on_cpu", "blocked", "did"), [(2, 220, "slept in"), (125, 105, "was in")])
def test_owners_calls_of_both_abis_are_one(on_cpu: int, blocked: int, did: str) -> None:
    calls = (call("read", on_cpu, blocked), replace(call("read", on_cpu, blocked), abi="i386"))
    owner = replace(timed_thread(9, "b", kernel=2 * on_cpu), syscalls=calls)
    text = found("lock", sample(held_by(owner, 490), owner)).text
    assert f"b (9) {did} read for at least" in text


def test_sleep_imposed_by_memory_high_is_named() -> None:
    slept = replace(
        sleep("reclaim", 480), stack=("schedule_timeout", "__mem_cgroup_handle_over_high")
    )
    waits = replace(timed_thread(5, "a"), sleeps=(slept,))
    assert "more than memory.high allows." in found("wait_reclaim", sample(waits)).text
    limit = MemoryLimit("/kubepods/a", 24 << 20, 1)
    judged = sample(waits, system_state=SystemState(memory=limit))
    text = found("wait_reclaim", judged).text
    assert "memory.high allows. Meanwhile its cgroup's limit of memory, 24.0 MiB of /kub" in text
    # It was a small part of it.
    most = replace(waits, sleeps=(replace(slept, ns=100_000_000), sleep("reclaim", 380)))
    assert "memory.high allows" not in found("wait_reclaim", sample(most)).text
    # Of others that are reached so seldom nothing is said.
    waits = replace(waits, sleeps=(sleep("reclaim", 480),))
    judged = sample(waits, system_state=SystemState(memory=limit))
    assert "/kubepods/a" not in found("wait_reclaim", judged).text


def test_a_crowd_that_has_the_cpu_is_told_together() -> None:
    crowd = tuple(CpuTaker(100 + i, "hog", 1, 20 * MS, 100 + i) for i in range(14))
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=crowd)))
    assert "Meanwhile 14 tasks called hog ran for 93 % of that" in finding.text
    assert finding.evidence["takers"] == 14
    # So few are told one by one; what is left of their name may still be much.
    few = tuple(replace(taker, ns=100 * MS) for taker in crowd[:2])
    text = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=few))).text
    assert "hog (100) ran for 33 % of that time, hog (101) ran for 33 %." in text


def test_taker_threads_of_the_same_process_are_reported_together() -> None:
    own = tuple(CpuTaker(100 + i, f"worker{i}", 1, 10 * MS, PID) for i in range(28))
    finding = found("cpu_contention", sample(replace(STARVED, cpu_taken_by=own)))
    assert "28 threads of the same process ran for 93 % of that" in finding.text
    assert finding.who == "program"


def test_a_deadline_threads_own_budget_is_a_limit() -> None:
    waits = replace(
        STARVED,
        scheduling=Scheduling("DEADLINE", 0, 0, (0, 1)),
        cpu_taken_by=(CpuTaker(7, "hog", 5, 200 * MS, 7), CpuTaker(0, "idle", 5, 100 * MS)),
    )
    finding = found("cpu_contention", sample(waits))
    assert finding.who == "limit"
    assert "had used up its runtime" in finding.text
    assert "hog" not in finding.text
    other = CpuTaker(8, "other", 5, 290 * MS, 8, policy="DEADLINE")
    text = found("cpu_contention", sample(replace(waits, cpu_taken_by=(other,)))).text
    assert "other (8), SCHED_DEADLINE, ran for" in text


def test_real_time_thread_behind_an_ordinary_one_is_throttled() -> None:
    waits = replace(
        STARVED,
        scheduling=Scheduling("FIFO", 0, 5, (0, 1)),
        cpu_taken_by=(CpuTaker(7, "hog", 6, 290 * MS, 7),),
    )
    finding = found("cpu_contention", sample(waits))
    assert finding.who == "limit"
    assert "Real-time tasks had used up their limit (sched_rt_runtime_us" in finding.text
    # A cgroup may leave them less than the machine does.
    assert "cpu.rt_runtime_us of its cgroups" in finding.text
    # Each time for less than an idle CPU may take to wake up: nothing was used up.
    woken = replace(waits, cpu_taken_by=(CpuTaker(0, "idle", 3000, 290 * MS),))
    assert "idled or woke up" in found("cpu_contention", sample(woken)).text


def test_wait_for_memory_with_oom_kill_disabled_is_named() -> None:
    stack = ("mem_cgroup_oom_synchronize", "pagefault_out_of_memory")
    waits = replace(timed_thread(5, "a"), sleeps=(replace(sleep("reclaim", 480), stack=stack),))
    text = found("wait_reclaim", sample(waits)).text
    assert "nothing is killed to make room (memory.oom_control)" in text
    freed = replace(waits, sleeps=(sleep("reclaim", 480),))
    assert "oom_control" not in found("wait_reclaim", sample(freed)).text


def test_who_weighs_more_is_told() -> None:
    weights = CpuWeights(77, "/pods/a", 64, "/pods/b", 1024)
    finding = found("cpu_contention", sample(STARVED, system_state=SystemState(weights=(weights,))))
    assert finding.advice is not None
    assert finding.advice.startswith("The CPU weight of /pods/a is 64, that of /pods/b 1024")
    alone = replace(weights, other_path=None)
    finding = found("cpu_contention", sample(STARVED, system_state=SystemState(weights=(alone,))))
    assert finding.advice is not None
    assert "that of stress 1024" in finding.advice
    idle = replace(weights, weight=0)
    finding = found("cpu_contention", sample(STARVED, system_state=SystemState(weights=(idle,))))
    assert finding.advice is not None
    # Its weight can't be raised.
    assert "/pods/a is idle (cpu.idle), and has a CPU when /pods/b wants none" in finding.advice
    assert "Raise" not in finding.advice
    even = replace(weights, weight=1024)
    finding = found("cpu_contention", sample(STARVED, system_state=SystemState(weights=(even,))))
    assert finding.advice is None


def test_low_weight_of_a_session_is_advice() -> None:
    weights = CpuWeights(77, "/autogroup-7", 36, "/autogroup-8", 1024)
    judged = sample(STARVED, system_state=SystemState(weights=(weights,)))
    advice = found("cpu_contention", judged).advice
    assert advice is not None
    assert advice == (
        "The kernel shares CPUs out by sessions (sched_autogroup): the weight of its session is 36,"
        " that of stress's session 1024. To raise it, write a lower nice value to"
        f" /proc/{PID}/autogroup."
    )
    assert "cpu.shares" not in advice


def test_nice_counts_within_a_group_alone() -> None:
    nice = replace(STARVED, scheduling=Scheduling("OTHER", 19, 0, (0, 1)))
    for path, groups in (("/autogroup-7", "sessions (sched_autogroup)"), ("/a", "cgroups")):
        even = CpuWeights(77, path, 1024, "/b", 1024)
        judged = sample(nice, system_state=SystemState(weights=(even,)))
        advice = found("cpu_contention", judged).advice
        assert advice is not None
        assert advice.endswith(f"0. That has no effect: they are in different {groups}.")


def test_nice_and_affinity_are_both_in_the_advice() -> None:
    machine = SystemState(cpus=(CpuUse(0, 490 * MS, 0), CpuUse(1, 0, 0)))
    nice = replace(STARVED, scheduling=Scheduling("OTHER", 19, 0, (1,)))
    advice = found("cpu_contention", sample(nice, system_state=machine)).advice
    assert advice is not None
    assert advice.startswith("Its nice value is 19, stress's 0: renice, which counts within a")
    assert "CPU 0 idled, but" in advice


HELD = OwnerActivity(known_ns=200 * MS, blocked_ns=0, ready_ns=160 * MS, held_ns=0)


def test_lock_verdict_names_the_taker_of_its_owners_cpu() -> None:
    owner = replace(
        timed_thread(9, "b", ready=200), cpu_taken_by=(CpuTaker(7, "hog", 9, 190 * MS, 7),)
    )
    waiting = held_by(owner, 200)
    waiting = replace(waiting, lock_waits=(replace(waiting.lock_waits[0], owner=HELD),))
    text = found("lock", sample(waiting, owner)).text
    assert "b (9) had no CPU, as hog (7) ran, for 80 % of that time." in text
    # What it had of the owner's waits may all have been at other times.
    owner = replace(owner, cpu_taken_by=(CpuTaker(7, "hog", 9, 100 * MS, 7),))
    text = found("lock", sample(waiting, owner)).text
    assert "b (9) had no CPU itself for 80 % of that time." in text


def test_lock_that_changed_hands_has_no_single_owner() -> None:
    quick = replace(timed_thread(9, "quick"), sleeps=(sleep("clock", 490, "nanosleep"),))
    slow = Waker("thread", 10, PID, "slow", 20, 460 * MS)
    waits = replace(held_by(quick, 490), sleeps=(sleep("futex", 490, "futex", slow),))
    text = found("lock", sample(waits, quick)).text
    assert "quick (9) had the lock at 0xabc0 when waits of 100 % of that time began or" in text
    assert "slow (10) had it when most of them ended: the lock may have gone from" in text
    # What that one did has no part in the other's having it.
    assert "nanosleep" not in text
    itself = replace(slow, tid=9, comm="quick")
    waits = replace(waits, sleeps=(sleep("futex", 490, "futex", itself),))
    text = found("lock", sample(waits, quick)).text
    assert "quick (9) held the lock at 0xabc0 for 100 % of that time. quick (9) slept in" in text


def test_advice_for_a_lock_is_that_for_its_owner() -> None:
    owner = replace(timed_thread(9, "b", user=10), sleeps=(sleep("disk", 480, "fsync"),))
    advice = found("lock", sample(held_by(owner, 490), owner)).advice
    assert advice is not None
    assert "iostat" in advice
    spins = timed_thread(9, "b", user=500)
    advice = found("lock", sample(held_by(spins, 490), spins)).advice
    assert advice == "Option -s shows where in the program it waits."


def test_a_deadlock_is_told() -> None:
    one = replace(timed_thread(5, "a"), lock_waits=(LockWait(0xA0, 6, "b", 1, 500 * MS),))
    two = replace(timed_thread(6, "b"), lock_waits=(LockWait(0xB0, 5, "a", 1, 500 * MS),))
    text = found("lock", sample(one, two)).text
    assert "b (6) held the lock at 0xa0" in text
    assert (
        "b (6) itself waits for a lock of a (5). This is a deadlock, if each still has its lock."
        in text
    )
    # One of them went on within the window.
    went_on = replace(two, lock_waits=(LockWait(0xB0, 5, "a", 1, 490 * MS),))
    assert "deadlock" not in found("lock", sample(one, went_on)).text
    itself = replace(one, lock_waits=(LockWait(0xA0, 5, "a", 1, 500 * MS),))
    # Another thread may unlock a mutex too.
    text = found("lock", sample(itself)).text
    assert "It waits for itself: only another thread can unlock that lock." in text
    assert "never" not in text


def test_what_who_ended_a_wait_surely_did_is_told() -> None:
    owner = replace(timed_thread(9, "owner"), sleeps=(sleep("clock", 480, "nanosleep"),))
    waker = Waker("thread", 9, PID, "owner", 20, 470 * MS)
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("futex", 470, "futex", waker),))
    text = found("wait_futex", sample(waits, owner)).text
    assert "of that time. Meanwhile owner (9) slept in nanosleep for at least 96 %" in text
    seldom = replace(owner, sleeps=(sleep("clock", 100, "nanosleep"),))
    assert "nanosleep" not in found("wait_futex", sample(waits, seldom)).text


def test_other_process_that_holds_mmap_lock_is_blamed() -> None:
    monitor = Waker("thread", 70, 70, "monitor", 20, 90 * MS)
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("mmap_lock", 90, "mmap", monitor),))
    finding = found("wait_mmap_lock", sample(waits))
    assert finding.who == "other-process"
    assert finding.advice is not None
    assert "smaps" in finding.advice
    own = replace(monitor, pid=PID)
    waits = replace(waits, sleeps=(sleep("mmap_lock", 90, "mmap", own),))
    assert found("wait_mmap_lock", sample(waits)).who == "program"


@pytest.mark.parametrize(
    ("reason", "syscall"),
    [("pipe", "write"), ("socket_send", "sendto"), ("socket_connect", "connect")],
)
def test_who_has_something_to_hand_over_is_not_idle(reason: str, syscall: str) -> None:
    worker = replace(timed_thread(5, "worker"), sleeps=(sleep(reason, 500, syscall),))
    text = found(f"wait_{reason}", sample(timed_thread(PID, "main"), worker)).text
    assert f"in {syscall} for 500.0 ms" in text
    assert "nothing else to do" not in text


def test_unknown_place_of_a_sleep_is_named() -> None:
    slept = Sleep("unknown", "ioctl", ("new_wait", "new_ioctl"), False, 4, 400 * MS, 100 * MS)
    main = replace(timed_thread(PID, "main"), sleeps=(slept,))
    finding = found("wait_unknown", sample(main))
    assert finding.remark
    assert "slept in ioctl, most in the kernel's new_wait, for 400.0 ms" in finding.text
    others = (replace(slept, stack=(f"wait_{at}",), ns=150 * MS) for at in "abc")
    several = found("wait_unknown", sample(replace(main, sleeps=(*others,)))).text
    assert "slept in ioctl, longest in the kernel's wait_a, for 450.0 ms" in several
    # What was not looked at says nothing.
    unseen = replace(main, sleeps=(replace(slept, stack=()),))
    assert rules_found(sample(unseen)) == ["asleep"]


def test_file_lock_wait_names_the_holder_at_the_end() -> None:
    slept = Sleep("file_lock", "flock", (), False, 1, 500 * MS, 500 * MS)
    main = replace(timed_thread(PID, "main"), sleeps=(slept,))
    judged = sample(main, system_state=SystemState(lock_holder=("holder", 70)))
    finding = found("wait_file_lock", judged)
    assert " holder (70) had the lock at the end." in finding.text
    # Its PID is that of who took it, which may have left it to another.
    assert "/proc/locks" not in (finding.advice or "")
    shared = SystemState(lock_holder=("holder", 70), lock_shared=True)
    text = found("wait_file_lock", sample(main, system_state=shared)).text
    assert " holder (70), among others, had the lock at the end." in text


def polls_lock(name: str, count: int, waits: int = 10) -> Sample:
    """A thread that slept so often, with so many calls, while another process has a lock."""
    slept = Sleep("clock", "clock_nanosleep", (), False, waits, 450 * MS, 50 * MS)
    call = SyscallStats(72, name, count, MS, MS)
    main = replace(timed_thread(PID, "main"), sleeps=(slept,), syscalls=(call,))
    state = SystemState(lock_holder=("holder", 70), polled_lock="/srv/jobs.db")
    return sample(main, system_state=state)


def test_sleep_between_attempts_to_lock_is_for_the_holder() -> None:
    judged = polls_lock("fcntl", 10)
    finding = found("file_lock_polled", judged)
    assert finding.sentence == (
        "the main thread main (27090) slept on a timer 10 times, maybe for holder (70)'s lock on"
        " /srv/jobs.db, for 450.0 ms."
    )
    assert not finding.remark
    assert rules_found(judged) == ["file_lock_polled"]


def runs_flock(count: int, polled_lock: str | None) -> Sample:
    """A shell that waited for children in turn: `sleep`, and so often flock(1)."""
    wakers = (
        *(Waker("thread", 500 + at, 500 + at, "flock", 1, MS) for at in range(count)),
        *(Waker("thread", 600 + at, 600 + at, "sleep", 1, 45 * MS) for at in range(10)),
    )
    slept = Sleep("child", "wait4", (), False, 10 + count, 460 * MS, 45 * MS, wakers)
    main = replace(timed_thread(PID, "bash"), sleeps=(slept,))
    holder = ("holder", 70) if polled_lock else None
    return sample(main, system_state=SystemState(lock_holder=holder, polled_lock=polled_lock))


def test_shell_between_runs_of_flock_waits_for_the_holder() -> None:
    judged = runs_flock(10, "/srv/lock")
    finding = found("file_lock_polled", judged)
    assert finding.sentence == (
        "the main thread bash (27090) waited for its children, flock among them 10 times, maybe"
        " for holder (70)'s lock on /srv/lock, for 460.0 ms."
    )
    assert rules_found(judged) == ["file_lock_polled"]


@pytest.mark.parametrize(("count", "is_said"), [(10, True), (1, False)])
def test_children_that_lock_an_unknown_file_are_said_to(count: int, is_said: bool) -> None:
    finding = found("wait_child", runs_flock(count, None))
    said = f"flock ended {count} waits, maybe after it tried to lock a file."
    assert (said in finding.details) == is_said
    assert ((finding.advice or "").endswith("/proc/[0-9]*/fdinfo/*")) == is_said


@pytest.mark.parametrize(
    ("name", "count", "waits"), [("fcntl", 5, 10), ("fcntl", 1, 1), ("ioctl", 10, 10)]
)
def test_sleep_without_attempts_to_lock_is_for_nobody(name: str, count: int, waits: int) -> None:
    assert rules_found(polls_lock(name, count, waits)) == ["asleep"]


@pytest.mark.parametrize("syscall", ["splice", "vmsplice", "tee"])
def test_wait_for_pipe_room_does_not_mean_missing_work(syscall: str) -> None:
    def text(*stack: str, reason: SleepReason = "pipe") -> str:
        slept = Sleep(reason, syscall, stack, False, 9, 400 * MS, 50 * MS)
        main = replace(timed_thread(PID, "main"), sleeps=(slept,))
        return found(f"wait_{reason}", sample(main)).text

    idle = "Whether it had work to do is not known"
    assert idle not in text("pipe_wait_writable", "wait_for_space.part.0", "do_splice")
    assert idle not in text("sk_stream_wait_memory", reason="socket_send")
    assert idle in text("pipe_wait_readable", "splice_from_pipe_next")


def test_page_faults_are_no_system_calls() -> None:
    thread = replace(
        timed_thread(5, "a", user=100, kernel=400),
        syscalls=(call("madvise", 20),),
        page_faults=PageFaults(100_000, 380 * MS, 0),
    )
    assert rules_found(sample(thread)) == ["page_faults"]


LIMITED = SystemState(memory=MemoryLimit("/small", 16 << 20, 5000))


def test_memory_limit_that_is_reached_often_is_named() -> None:
    thread = replace(timed_thread(5, "a", user=100, kernel=300), syscalls=(call("read", 300),))
    told = "limit of memory, 16.0 MiB of /small, was reached 5,000 times"
    assert told in found("kernel_work", sample(thread, system_state=LIMITED)).text
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("page_cache", 300, "read"),))
    assert told in found("wait_page_cache", sample(waits, system_state=LIMITED)).text
    seldom = SystemState(memory=MemoryLimit("/small", 16 << 20, 49))
    text = found("kernel_work", sample(thread, system_state=seldom)).text
    assert "limit of memory" not in text
    tiny = replace(thread, syscalls=(call("getppid", 300, count=2_500_000),))
    assert "limit of memory" not in found("kernel_work", sample(tiny, system_state=LIMITED)).text


def test_a_core_dump_is_what_the_kernel_worked_for() -> None:
    times = replace(AGREED, user_ns=0, system_ns=480 * MS)
    dumping = SystemState(cpus=(CpuUse(0, 0, 0),), dumping=True)
    judged = sample(replace(BUSY, task_times=times), system_state=dumping)
    assert "It had its core dump to write." in found("doubtful_user", judged).text
    # The call that it crashed in is the last that was seen of it.
    in_call = replace(timed_thread(5, "a", kernel=300), syscalls=(call("pause", 300),))
    finding = found("kernel_work", sample(in_call, system_state=dumping))
    assert finding.who == "program"
    assert "was about to write its core dump" in finding.text
    assert "pause" not in finding.text
    waits = replace(timed_thread(5, "a"), sleeps=(sleep("core_dump", 400),))
    assert found("wait_core_dump", sample(waits)).who == "program"
