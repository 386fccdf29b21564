"""The verdict on a wait chain whose root is not known: the furthest hop, and facts beside it."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import (
    ChainGap,
    ChainPart,
    ChainThread,
    Finding,
    HeldProcess,
    Sample,
    Sleep,
    SleepReason,
    Thread,
    WaitChain,
)
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

CLIENT = 27090
SERVER = ChainThread(50, 50, "server")
TITLE = "postgres: app shop [local] LOCK TABLE waiting"
BACKEND = ChainThread(60, 60, "postgres", TITLE)
HOLDER = HeldProcess(
    60, 61, "postgres", "stopped", TIMED_WINDOW_NS, "postgres: app shop [local] idle in transaction"
)
END = ChainPart(
    (SERVER, BACKEND), "unknown", TIMED_WINDOW_NS, "epoll", syscall="epoll_wait", gap="lasts"
)


def waiting(
    *parts: ChainPart,
    held: tuple[HeldProcess, ...] = (),
    reason: SleepReason = "poll",
    tid: int = CLIENT,
) -> Thread:
    thread = timed_thread(tid, "client")
    sleep = Sleep(reason, "poll", (), False, 5, TIMED_WINDOW_NS, TIMED_WINDOW_NS)
    chain = WaitChain(sum(part.ns for part in parts), parts, held=held)
    time = replace(thread.time, blocked_ns=TIMED_WINDOW_NS) if thread.time is not None else None
    return replace(thread, sleeps=(sleep,), chain=chain, time=time)


def judged(*threads: Thread) -> Sample:
    return judge(bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS)))


def finding(*parts: ChainPart, held: tuple[HeldProcess, ...] = ()) -> Finding:
    return judged(waiting(*parts, held=held)).verdict[0]


def test_furthest_hop_is_named_with_its_call_and_title() -> None:
    found = finding(END)
    assert found.rule == "wait_chain_end"
    assert found.sentence == (
        "postgres (60) slept in epoll_wait while the main thread client (27090) waited for it in"
        " poll for 500.0 ms."
    )
    assert found.details[:2] == (
        f'The title of postgres (60) was "{TITLE}".',
        "The root is not known: nobody woke postgres (60), and no single process is known at its"
        " other end.",
    )
    assert "The chain: client (27090) → server (50) → postgres (60)." in found.details
    assert found.advice == "In PostgreSQL, pg_blocking_pids() shows which session has the lock."


def test_unknown_root_is_a_remark_that_replaces_the_sleep() -> None:
    (found,) = judged(waiting(END)).verdict
    assert found.remark
    assert "Whether client (27090) had work is not known." in found.details


def test_stopped_process_of_the_program_is_no_proven_cause() -> None:
    found = finding(END, held=(HOLDER, replace(HOLDER, pid=62)))
    assert (
        'Process 61 of the same program, "postgres: app shop [local] idle in transaction", was'
        " stopped all the time."
    ) in found.details
    assert "So was process 62." in found.details
    assert "Whether that is the cause is not known." in found.details
    assert "61" not in found.sentence
    assert found.remark


def test_stopper_and_shorter_stop_are_named() -> None:
    most = replace(HOLDER, title=None, by=ChainThread(7, 7, "bash"), ns=TIMED_WINDOW_NS - 1_000_000)
    found = finding(END, held=(most,))
    said = "Process 61 of the same program was stopped by bash (7) for 499.0 ms at least."
    assert said in found.details


@pytest.mark.parametrize("held", [replace(HOLDER, like=50), replace(HOLDER, ns=100)])
def test_other_or_short_stops_are_not_said(held: HeldProcess) -> None:
    assert "same program" not in finding(END, held=(held,)).text


@pytest.mark.parametrize(
    ("gap", "said"),
    [
        ("interrupt", "a timer, a device or a packet woke postgres (60)."),
        ("circle", "The chain is a circle: postgres (60) waited for a thread that waited for it."),
        ("hops", "there are too many hops"),
        ("not_followed", "postgres (60) was not measured at that time."),
    ],
)
def test_why_the_root_is_not_known_is_said(gap: ChainGap, said: str) -> None:
    assert said in finding(replace(END, gap=gap)).text


def test_several_reasons_have_their_shares() -> None:
    parts = (
        replace(END, ns=300_000_000),
        replace(END, ns=150_000_000, gap="circle"),
        replace(END, ns=50_000_000, gap="hops"),
    )
    assert finding(*parts).details[1:3] == (
        "The root is not known: for 60 % of that time nobody woke postgres (60), and no single"
        " process is known at its other end.",
        "For 30 % of that time postgres (60) waited for a thread of the chain.",
    )


def test_more_threads_than_are_followed_may_be_why() -> None:
    """Another capture would not know more."""
    thread = waiting(replace(END, gap="not_followed"))
    assert thread.chain is not None
    bounded = replace(thread, chain=replace(thread.chain, is_bounded=True))
    said = "postgres (60) was not measured at that time, maybe as there were too many threads."
    assert said in judged(bounded).verdict[0].text


def test_process_of_several_threads_is_named_without_a_call() -> None:
    part = ChainPart((SERVER,), "unknown", TIMED_WINDOW_NS, gap="threads")
    found = finding(part)
    assert found.sentence == (
        "the main thread client (27090) waited for server (50) in poll for 500.0 ms."
    )
    assert (
        "The root is not known: any thread of server (50) may have been waited for."
        in found.details
    )
    assert found.advice == "To see what it does: kernel-delay -p 50 --chains"


def test_only_thread_that_ran_is_named_beside_its_process() -> None:
    thread = ChainThread(51, 50, "worker", process="server")
    found = finding(ChainPart((thread,), "unknown", TIMED_WINDOW_NS, gap="ran"))
    assert found.sentence == (
        "the main thread client (27090) waited for server (50) in poll for 500.0 ms."
    )
    assert found.details[:2] == (
        "The root is not known: any thread of server (50) may have been waited for.",
        "Only worker (51) of these ran, or wanted a CPU, for long.",
    )
    assert found.advice == "To see what it does: kernel-delay where -p 50"


def test_end_of_less_than_half_is_not_named() -> None:
    parts = (replace(END, ns=200_000_000), ChainPart((), "unknown", 300_000_000))
    assert all(each.rule != "wait_chain_end" for each in judged(waiting(*parts)).verdict)


def test_end_in_the_own_process_is_left_to_other_rules() -> None:
    own = replace(END, threads=(ChainThread(CLIENT + 1, CLIENT, "worker"),))
    assert all(each.rule != "wait_chain_end" for each in judged(waiting(own)).verdict)


def test_known_root_comes_first() -> None:
    known = ChainPart((SERVER,), "stopped", 300_000_000)
    found = finding(known, replace(END, ns=200_000_000))
    assert found.rule == "wait_chain"


@pytest.mark.parametrize("reason", ["file_lock", "fuse"])
def test_wait_that_no_idle_thread_has_stays_a_finding(reason: SleepReason) -> None:
    root = ChainPart((SERVER,), "running", TIMED_WINDOW_NS)
    for part, rule in ((END, "wait_chain_end"), (root, "wait_chain")):
        found = judged(waiting(part, reason=reason)).verdict[0]
        assert found.rule == rule
        assert not found.remark


def test_chain_of_a_worker_precedes_a_main_thread_that_sleeps() -> None:
    main = timed_thread(CLIENT, "client")
    time = replace(main.time, blocked_ns=TIMED_WINDOW_NS) if main.time is not None else None
    sleep = Sleep("poll", "poll", (), False, 1, TIMED_WINDOW_NS, TIMED_WINDOW_NS)
    main = replace(main, sleeps=(sleep,), time=time)
    rules = [each.rule for each in judged(main, waiting(END, tid=CLIENT + 1)).verdict]
    assert rules == ["wait_chain_end", "asleep"]


def test_ends_in_threads_of_one_process_are_added_up() -> None:
    parts = [
        replace(END, threads=(ChainThread(61 + n, 60, f"w{n}", process="backend"),), ns=170_000_000)
        for n in range(2)
    ]
    found = finding(*parts, replace(parts[1], ns=10_000_000))
    assert found.sentence.startswith("threads of backend (60) slept in epoll_wait while the main")
    assert (
        "The root is not known: nobody woke threads of backend (60), and no single process is"
        " known at their other end."
    ) in found.details
    assert found.advice == "To see what it does: kernel-delay -p 60 --chains"


def test_chain_back_to_the_measured_process_has_no_advice() -> None:
    own = ChainThread(CLIENT + 1, CLIENT, "worker")
    found = finding(replace(END, threads=(SERVER, own), gap="lasts"))
    assert found.rule == "wait_chain_end"
    assert found.advice is None


def test_processes_that_were_not_followed_are_one_end() -> None:
    children = ChainThread(0, 0, "sh")
    part = ChainPart((SERVER, children), "unknown", TIMED_WINDOW_NS, gap="not_followed")
    found = finding(part)
    assert found.rule == "wait_chain_end"
    assert found.sentence == (
        "the main thread client (27090) waited for several processes named sh in poll for 500.0 ms."
    )
    assert "The root is not known: they were not measured at that time." in found.details
    chain = "The chain: client (27090) → server (50) → several processes named sh."
    assert chain in found.details
    assert found.advice == "To see what they do: kernel-delay -p 50 --children"
    assert "end_pid" not in found.evidence
