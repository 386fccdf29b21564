"""A thread that slept for a third of the window is not called fine, and is not accused."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.processes import ranked
from kernel_delay.analysis.verdict import judge
from kernel_delay.model import (
    ChainPart,
    Finding,
    LockWait,
    Lost,
    Sample,
    Sleep,
    SleepFile,
    SyscallStats,
    Target,
    TaskTimes,
    Thread,
    WaitChain,
    Waker,
)
from kernel_delay.reporters import text
from kernel_delay.reporters.page.contents import page_sample
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000
PID = 27090


def slept(reason: str, ms: int, syscall: str, *wakers: Waker) -> Sleep:
    return Sleep(reason, syscall, (), False, 1, ms * MS, ms * MS, wakers)  # type: ignore[arg-type]


def asleep(tid: int, name: str, *sleeps: Sleep) -> Thread:
    return replace(timed_thread(tid, name), sleeps=sleeps)


def sample(
    *threads: Thread,
    comm: str = "postgres",
    arguments: tuple[str, ...] = (),
    processes: int = 1,
) -> Sample:
    return judge(
        bare_sample(
            *threads,
            window=window(duration_ns=TIMED_WINDOW_NS),
            target=Target(PID, comm, f"/usr/bin/{comm}", command_line=arguments),
            processes=processes,
        )
    )


def first_line(judged: Sample) -> str:
    return next(line for line in text.render(judged).splitlines() if "VERDICT" in line)


def remark(judged: Sample, rule: str = "asleep") -> Finding:
    (found,) = [finding for finding in judged.verdict if finding.rule == rule]
    return found


BACKEND = asleep(PID, "postgres", slept("epoll", 500, "epoll_wait"))
BUSY = replace(
    timed_thread(9, "worker", user=495, kernel=1),
    task_times=TaskTimes(495 * MS, MS, 0, 0, steal_ns=0),
)


def test_verdict_on_a_sleeper_says_its_work_is_unknown() -> None:
    arguments = ("postgres: app app [local] idle in transaction",)
    assert first_line(sample(BACKEND, arguments=arguments)) == (
        "# VERDICT: the main thread postgres (27090) slept in epoll_wait for 500.0 ms, 100 % of"
        " the window. Nobody woke it. The title of postgres (27090) is"
        ' "app app [local] idle in transaction". Whether it had work to do is not known.'
        " To see whom it waits for: kernel-delay -p 27090 --chains"
    )


def test_a_title_that_says_what_it_waits_for_makes_it_a_finding() -> None:
    arguments = ("postgres: app app [local] UPDATE waiting",)
    (found,) = sample(BACKEND, arguments=arguments).verdict
    assert not found.remark
    assert found.details == (
        "Nobody woke it.",
        'The title of postgres (27090) is "app app [local] UPDATE waiting".',
        "By its title it waits for a lock.",
    )
    assert found.advice is not None
    assert "pg_blocking_pids()" in found.advice
    # Another program may mean anything by that word.
    (other,) = sample(BACKEND, arguments=arguments, comm="app").verdict
    assert other.remark


@pytest.mark.parametrize(
    ("reason", "syscall"),
    [
        ("epoll", "epoll_wait"),
        ("poll", "poll"),
        ("poll", "select"),
        ("socket_receive", "recvfrom"),
        ("futex", "futex"),
        ("clock", "clock_nanosleep"),
        ("signal", "pause"),
    ],
)
@pytest.mark.parametrize("ms", [170, 500])
def test_nothing_kept_stands_above_no_long_wait(reason: str, syscall: str, ms: int) -> None:
    judged = sample(asleep(PID, "app", slept(reason, ms, syscall)))
    assert "nothing kept" not in text.render(judged)
    unknown = "waited for a lock or for work" if reason == "futex" else "had work to do"
    said = f" Whether it {unknown} is not known."
    if "poll" in reason or (reason == "socket_receive" and ms == 500):
        said += f" To see whom it waits for: kernel-delay -p {PID} --chains"
    if reason == "clock":
        said += f" To see where in the program: kernel-delay where -p {PID}"
    assert first_line(judged).endswith(said)
    assert not any(not finding.remark for finding in judged.verdict)


def test_poll_whose_chain_says_nothing_is_shown_by_where() -> None:
    """As one of connections to two servers, of which one is stopped."""
    thread = asleep(PID, "app", slept("poll", 500, "poll"))
    chain = WaitChain(500 * MS, (ChainPart((), "unknown", 500 * MS),))
    judged = sample(replace(thread, chain=chain))
    assert first_line(judged).endswith(
        f" To see what it waits for now: kernel-delay where -p {PID}"
    )


def test_a_short_sleep_is_no_remark() -> None:
    judged = sample(asleep(PID, "app", slept("epoll", 160, "epoll_wait")))
    assert judged.verdict == ()


def test_call_that_has_nearly_all_of_it_is_named_alone() -> None:
    """As of a client that pauses between requests to a fast server."""
    timer = Waker("hard_irq", 0, 0, "", 5, 480 * MS)
    packet = Waker("soft_irq", 0, 0, "", 5, 8 * MS)
    pauses = slept("clock", 480, "clock_nanosleep", timer)
    judged = sample(asleep(PID, "app", pauses, slept("socket_receive", 8, "recvfrom", packet)))
    assert "app (27090) slept mostly in clock_nanosleep for 488.0 ms" in remark(judged).text
    assert " Its own timer woke it. " in remark(judged).text


def test_who_woke_it_is_named() -> None:
    timer = Waker("hard_irq", 0, 0, "", 5, 500 * MS)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", timer)))
    assert " Timers or devices woke it. " in remark(judged).text
    packet = Waker("soft_irq", 0, 0, "", 5, 500 * MS)
    judged = sample(asleep(PID, "app", slept("epoll", 500, "epoll_wait", packet)))
    assert " Soft IRQs woke it: for timers or for packets, also those from" in remark(judged).text
    own = Waker("thread", 5, PID, "helper", 5, 200 * MS)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", own)))
    assert " helper (5) of the same process ended 40 % of that time. " in remark(judged).text


def test_threads_that_woke_it_once_each_are_counted() -> None:
    wakers = [Waker("thread", tid, 77, "client", 1, 20 * MS) for tid in (5, 6, 7)]
    timer = Waker("hard_irq", 0, 0, "", 5, 400 * MS)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", timer, *wakers)))
    said = " 3 threads woke it, once each: client (5) of process 77 is one of them. "
    assert said in remark(judged).text


def test_thread_that_woke_it_last_is_named() -> None:
    own = Waker("thread", 5, PID, "helper", 5, 200 * MS)
    last = Waker("thread", 6, 77, "client", 1, 20 * MS, woke_last=True)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", own, last)))
    assert (
        " helper (5) of the same process ended 40 % of that time."
        " client (6) of process 77 woke it last. "
    ) in remark(judged).text
    timer = Waker("hard_irq", 0, 0, "", 5, 400 * MS)
    often = Waker("thread", 8, 8, "often", 9, 10 * MS)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", timer, often, last)))
    assert " 9 times. client (6) of process 77 woke it last. " in remark(judged).text


def test_thread_that_woke_it_is_named_once() -> None:
    own = Waker("thread", 5, PID, "helper", 5, 200 * MS, woke_last=True)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", own)))
    assert "woke it last" not in remark(judged).text


def test_a_futex_wait_that_nobody_ends_is_not_idleness() -> None:
    writer = asleep(5, "writer", slept("futex", 500, "futex"))
    judged = sample(asleep(PID, "app", slept("futex", 500, "futex")), writer, comm="app")
    assert remark(judged, "wait_futex").tid == PID
    assert remark(judged).text == (
        "writer (5) slept in futex for 500.0 ms, 100 % of the window. Nobody woke it. Whether it"
        " waited for a lock or for work is not known."
    )


def test_few_other_sleeping_threads_are_named() -> None:
    reader = asleep(4, "reader", slept("signal", 500, "pause"))
    writers = [asleep(5 + n, f"writer{n}", slept("futex", 500, "futex")) for n in range(4)]
    text = remark(sample(BUSY, reader, *writers[:2], comm="app")).text
    assert "slept in pause for 500.0 ms, 100 % of the window. Nobody woke it. " in text
    others = "Others slept too: writer0 (5) in futex and writer1 (6) in futex."
    assert f" is not known. {others} A wait in" in text
    text = remark(sample(BUSY, reader, *writers[:3], comm="app")).text
    assert "writer0 (5) in futex, writer1 (6) in futex and writer2 (7) in futex." in text
    text = remark(sample(BUSY, reader, *writers, comm="app")).text
    assert "of the window (4 other threads too). Nobody woke it." in text
    assert text.endswith(
        " Whether it had work to do is not known."
        " 4 of the other threads slept in futex, maybe for a lock."
    )


def test_busy_thread_precedes_threads_that_wait_for_it() -> None:
    join = asleep(PID, "app", slept("futex", 500, "futex"))
    assert first_line(sample(BUSY, join)).startswith("# VERDICT: the kernel is not to blame:")
    assert first_line(sample(BUSY, BACKEND)).startswith("# VERDICT: the main thread postgres")
    helper = asleep(7, "helper", slept("poll", 500, "poll"))
    assert first_line(sample(BUSY, helper)).startswith("# VERDICT: the kernel is not to blame:")


def test_busy_thread_precedes_a_timer_of_the_main_thread() -> None:
    """A timer is nobody that the main thread waits for."""
    timer = slept("clock", 500, "clock_nanosleep")
    main = asleep(PID, "app", timer)
    assert first_line(sample(BUSY, main)).startswith("# VERDICT: the kernel is not to blame:")
    own = replace(BUSY, tid=PID, sleeps=(slept("clock", 200, "clock_nanosleep"),))
    assert first_line(sample(own)).startswith("# VERDICT: the kernel is not to blame:")
    both = replace(main, sleeps=(replace(timer, ns=300 * MS), slept("poll", 200, "poll")))
    assert first_line(sample(BUSY, both)).startswith("# VERDICT: the main thread app")


def test_the_thread_of_the_first_line_has_its_tables() -> None:
    report = text.render(sample(BACKEND, asleep(5, "helper", slept("poll", 500, "poll"))))
    assert "epoll, epoll_wait" in report
    assert "# 1 thread slept throughout: helper" in report


def test_helpers_of_a_java_vm_wait_by_design() -> None:
    helper = asleep(5, "Service Thread", slept("futex", 500, "futex"))
    assert sample(helper, comm="java").verdict == ()
    assert sample(helper, comm="app").verdict != ()


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        (("postgres: app app [local] UPDATE waiting",), "app app [local] UPDATE waiting"),
        (("nginx: worker process",), "nginx: worker process"),
        (("a" * 80 + " waiting",), "a" * 39 + "…" + "a" * 12 + " waiting"),
        (
            ("nginx: master process nginx -c /etc/nginx/sites/shop/nginx.conf -g daemon off;",),
            "nginx: master process nginx -c /etc/ngi….conf -g daemon off;",
        ),
        (("postgres", "-D", "/data"), None),
        (("/opt/my app/bin/server", "--port"), None),
        (("sleep",), None),
        ((), None),
    ],
)
def test_a_title_is_one_argument_of_several_words(
    arguments: tuple[str, ...], title: str | None
) -> None:
    (found,) = sample(BACKEND, arguments=arguments).verdict
    text = found.text
    assert ("The title of" in text) == (title is not None)
    assert title is None or f' The title of postgres (27090) is "{title}". ' in text


def test_waiting_processes_of_one_title_are_one_finding() -> None:
    def backend(pid: int, title: str) -> Sample:
        made = sample(asleep(pid, "postgres", slept("epoll", 500, "epoll_wait")), processes=4)
        target = Target(pid, "postgres", None, command_line=(f"postgres: {title}",))
        return judge(replace(made, target=target))

    waiting = [backend(pid, "app app [local] UPDATE waiting") for pid in (5, 6, 7)]
    first, second = ranked([backend(4, "checkpointer"), *waiting])
    assert [first.target.pid, *(target.pid for target, _ in first.others)] == [5, 6, 7]
    assert second.target.pid == 4
    # Who reports them has the title in front.
    assert "The title" not in first.finding.text


def java(*threads: Thread) -> Sample:
    launcher = asleep(PID, "java", slept("futex", 500, "futex"))
    helper = asleep(8, "Service Thread", slept("futex", 500, "futex", ended(6, "VM Thread", 500)))
    return sample(launcher, helper, *threads, comm="java")


def ended(tid: int, name: str, ms: int) -> Waker:
    return Waker("thread", tid, PID, name, 5, ms * MS)


def test_workers_stopped_by_a_java_vm_precede_idle_helpers() -> None:
    worker = asleep(5, "worker", slept("futex", 300, "futex", ended(6, "VM Thread", 290)))
    finding = remark(java(worker), "wait_futex")
    assert finding.text.startswith("worker (5) waited for a futex for 300.0 ms, 60 %")
    assert "VM Thread (6) of the same process ended 97 % of that time." in finding.text
    assert "Such waits are typical of a safepoint of the Java VM" in finding.text
    assert "not known" not in finding.text
    assert finding.advice == "java -Xlog:safepoint,gc shows how long each took, and why."


def test_java_helper_waiting_for_a_lock_is_no_finding() -> None:
    """A worker that the collector stopped may have the lock: the worker is what matters."""
    lock = LockWait(0xABC0, 5, "worker", 1, 300 * MS)
    helper = asleep(8, "Reference Handl", slept("futex", 300, "futex", ended(6, "VM Thread", 290)))
    helper = replace(helper, lock_waits=(lock,))
    worker = asleep(5, "worker", slept("futex", 300, "futex", ended(6, "VM Thread", 290)))
    assert [finding.rule for finding in java(helper, worker).verdict] == ["wait_futex"]
    assert remark(java(helper, worker), "wait_futex").tid == 5
    assert java(replace(helper, name="worker2"), worker).verdict[0].rule == "lock"


def test_waits_beside_those_for_locks_have_their_waker_named() -> None:
    wakers = (ended(6, "VM Thread", 200), ended(7, "owner", 100))
    lock = LockWait(0xABC0, 7, "owner", 9, 100 * MS)
    worker = asleep(5, "worker", slept("futex", 300, "futex", *wakers))
    text = remark(java(replace(worker, lock_waits=(lock,))), "wait_futex").text
    assert "for 200.0 ms, 40 % of the window. VM Thread (6) of the same process ended 100 %" in text
    # More than is left of the waits without those for locks: some of it was for these.
    lock = replace(lock, ns=150 * MS)
    text = remark(java(replace(worker, lock_waits=(lock,))), "wait_futex").text
    assert "VM Thread" not in text


def test_waits_of_which_more_is_known_come_first() -> None:
    worker = asleep(5, "worker", slept("futex", 300, "futex", ended(6, "VM Thread", 290)))
    unknown = asleep(9, "java", slept("futex", 500, "futex"))
    assert [finding.rule for finding in java(unknown, worker).verdict] == ["wait_futex", "asleep"]


def test_sleep_of_a_lock_owner_belongs_to_the_lock() -> None:
    owner = asleep(5, "owner", slept("clock", 500, "clock_nanosleep"))
    lock = LockWait(0xABC0, 5, "owner", 1, 500 * MS)
    waiter = replace(asleep(PID, "app", slept("futex", 500, "futex")), lock_waits=(lock,))
    assert [finding.rule for finding in sample(waiter, owner).verdict] == ["lock"]


def test_who_woke_it_most_often_is_named() -> None:
    timer = Waker("hard_irq", 0, 0, "", 5, 400 * MS)
    often = Waker("thread", 8, 8, "often", 9, 10 * MS)
    longest = Waker("thread", 9, PID, "longest", 1, 20 * MS)
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", timer, often, longest)))
    assert " often (8) woke it most often, 9 times. " in remark(judged).text
    judged = sample(asleep(PID, "app", slept("poll", 500, "poll", timer, longest)))
    assert " longest (9) of the same process woke it, once. " in remark(judged).text


@pytest.mark.parametrize("name", ["worker", "Service Thread"])
def test_nothing_kept_stands_above_no_sleep_without_a_remark(name: str) -> None:
    # No record of its sleep was left, or it is there to wait.
    thread = timed_thread(5, name, user=320)
    judged = sample(thread, asleep(6, "Finalizer", slept("futex", 500, "futex")), comm="java")
    assert judged.verdict == ()
    assert first_line(judged) == (
        "# VERDICT: no cause of a delay was found. Finalizer (6) slept for 100 % of the window"
        " (1 other thread too)."
    )
    busy = sample(timed_thread(5, name, user=400))
    assert first_line(busy) == "# VERDICT: nothing kept a thread from its work for long."


def summed_up(threads: int, **parts: int) -> Thread:
    thread = timed_thread(0, "request", **parts)
    return replace(thread, threads=threads, exited=True)


@pytest.mark.parametrize(
    ("threads", "lost", "why"),
    [
        (
            (timed_thread(5, "main", user=1, unaccounted=499),),
            Lost(missed_events=500, missed_switches=500),
            "99 % of the window is unaccounted for main (5)",
        ),
        (
            (timed_thread(5, "main", user=500),),
            Lost(dropped_records=1),
            "records of threads, system calls or interrupts are missing",
        ),
        (
            (timed_thread(5, "main", user=500), summed_up(100, user=50, ready=450)),
            Lost(),
            "request (100 threads that ended) was ready, held or unaccounted for 90 % of its time",
        ),
        (
            (summed_up(100, user=500),),
            Lost(),
            "all threads ended, and those of one name are summed up",
        ),
    ],
)
def test_nothing_kept_is_not_said_without_proof(
    threads: tuple[Thread, ...], lost: Lost, why: str
) -> None:
    # No rule is asked: user_work would stand below it as a remark.
    judged = bare_sample(*threads, lost=lost, window=window(duration_ns=TIMED_WINDOW_NS))
    unknown = f"hether anything kept a thread from its work is not known: {why}."
    assert first_line(judged) == f"# VERDICT: w{unknown}"
    assert page_sample(judged, 0).doubt == why


def test_ended_threads_that_ran_speak_for_nobody_and_against_nobody() -> None:
    judged = bare_sample(timed_thread(5, "main", user=500), summed_up(100, user=480, ready=20))
    assert first_line(judged) == "# VERDICT: nothing kept a thread from its work for long."
    assert page_sample(judged, 0).doubt is None


def test_open_of_a_fifo_waits_for_its_other_end() -> None:
    judged = sample(asleep(PID, "daemon", slept("pipe", 500, "openat")), comm="daemon")
    (finding,) = (each for each in judged.verdict if each.rule == "wait_pipe")
    assert (
        "waited for somebody to open the other end of a FIFO (named pipe) in openat" in finding.text
    )
    assert finding.advice == "kernel-delay where shows its path, while it waits."
    assert "Whether it had work to do" not in finding.text
    judged = sample(asleep(PID, "daemon", slept("pipe", 500, "read")), comm="daemon")
    assert "FIFO" not in text.render(judged)


def test_own_sleep_and_waits_for_events_are_apart() -> None:
    timer = Waker("hard_irq", 0, 0, "", 2, 140 * MS)
    packet = Waker("soft_irq", 0, 0, "", 5, 350 * MS)
    poll = slept("epoll", 350, "epoll_wait", packet)
    judged = sample(asleep(PID, "app", poll, slept("clock", 140, "clock_nanosleep", timer)))
    found = remark(judged)
    assert found.sentence == (
        "the main thread app (27090) slept in epoll_wait for 350.0 ms and in clock_nanosleep for"
        " 140.0 ms, in all for 490.0 ms."
    )
    assert found.details == (
        "Soft IRQs woke it in epoll_wait: for timers or for packets, also those from this machine.",
        "Its own timer woke it in clock_nanosleep.",
        "While it slept in clock_nanosleep, it handled no events.",
        "Whether it had work to do is not known.",
    )
    # Little of it is no part.
    judged = sample(asleep(PID, "app", poll, slept("clock", 10, "clock_nanosleep", timer)))
    assert "handled no events" not in remark(judged).text


def test_who_woke_it_in_each_call_is_said_once_if_equal() -> None:
    own = Waker("thread", 5, PID, "helper", 5, 200 * MS)
    polls = slept("poll", 200, "poll", own), slept("epoll", 200, "epoll_wait", own)
    text = remark(sample(asleep(PID, "app", *polls))).text
    assert " helper (5) of the same process ended 100 % of that time. Whether" in text
    other = replace(own, tid=6, comm="other")
    polls = polls[0], slept("epoll", 200, "epoll_wait", other)
    text = remark(sample(asleep(PID, "app", *polls))).text
    assert (
        " helper (5) of the same process ended 100 % of the time in poll."
        " other (6) of the same process ended 100 % of the time in epoll_wait. Whether"
    ) in text


TIMER = Waker("hard_irq", 0, 0, "", 3, 470 * MS)
SOCKET = SleepFile(5, 7, "tcp", "127.0.0.1:40000", peer_address="10.0.0.1:5432", is_client=True)


def polls(count: int, timed_out: int, across: int = 0) -> tuple[SyscallStats, ...]:
    """Calls of which some timed out."""
    return (SyscallStats(7, "poll", count, 470 * MS, MS, across=across, timed_out=timed_out),)


@pytest.mark.parametrize(
    ("file", "syscalls", "rule", "said"),
    [
        (
            replace(SOCKET, is_client=False),
            polls(5, 5),
            "asleep",
            "Its polls timed out: it waited in vain for events on the TCP connection to"
            " 10.0.0.1:5432 (fd 5).",
        ),
        (None, polls(5, 6, across=1), "asleep", "Its polls timed out: no event came."),
        (SOCKET, polls(0, 1, across=1), "wait_poll", "Its polls timed out: no event came on fd 5."),
    ],
)
def test_polls_that_time_out_waited_in_vain(
    file: SleepFile | None, syscalls: tuple[SyscallStats, ...], rule: str, said: str
) -> None:
    sleep = replace(slept("poll", 480, "poll", TIMER), file=file)
    judged = sample(replace(asleep(PID, "app", sleep), syscalls=syscalls))

    assert said in remark(judged, rule).details


@pytest.mark.parametrize("syscalls", [polls(5, 4), polls(5, 5, across=1), (), polls(0, 0)])
def test_each_poll_is_to_time_out(syscalls: tuple[SyscallStats, ...]) -> None:
    sleep = slept("poll", 480, "poll", TIMER)
    judged = sample(replace(asleep(PID, "app", sleep), syscalls=syscalls))

    assert "Timers or devices woke it." in remark(judged).details


@pytest.mark.parametrize(
    "lost",
    [
        Lost(missed_events=1, missed_calls=1),
        Lost(missed_events=1, missed_threads=1),
        Lost(dropped_records=1),
    ],
)
def test_what_was_lost_may_have_been_an_event(lost: Lost) -> None:
    sleep = slept("poll", 480, "poll", TIMER)
    thread = replace(asleep(PID, "app", sleep), syscalls=polls(5, 5))
    judged = judge(replace(sample(thread), lost=lost))

    assert "timed out" not in remark(judged).text
