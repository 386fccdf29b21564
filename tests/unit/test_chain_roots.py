"""Wait chains: the parts of a wait are disjoint and add up to it, whatever threads did."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.analysis import chain_roots
from kernel_delay.analysis.chain_roots import MOST_HOPS, Root, StateSlice
from kernel_delay.model import ChainGap, ChainState, SleepReason

STATES: st.SearchStrategy[ChainState] = st.sampled_from(
    ("running", "runnable", "throttled", "stopped", "blocked", "unknown")
)
REASONS: st.SearchStrategy[SleepReason | None] = st.sampled_from(
    (None, "clock", "pipe", "futex", "disk", "poll", "epoll")
)
GAPS: st.SearchStrategy[ChainGap | None] = st.sampled_from((None, "lasts", "threads"))


@st.composite
def timelines(draw: st.DrawFn) -> dict[int, list[StateSlice]]:
    """Threads 1 to 5, each with slices that have gaps, and wakers that may be any, or none."""
    found = {}
    for tid in range(1, 6):
        at = draw(st.integers(1, 50))
        slices = []
        for _ in range(draw(st.integers(0, 8))):
            since = at + draw(st.integers(0, 20))
            at = since + draw(st.integers(1, 60))
            state = draw(STATES)
            waker = draw(st.integers(0, 7))
            gap = draw(GAPS)
            ended_ns = draw(st.sampled_from((0, at)))
            slices.append(
                StateSlice(since, at, state, draw(REASONS), waker, gap=gap, ended_ns=ended_ns)
            )
        found[tid] = slices
    return found


def roots(
    tid: int, threads: Mapping[int, Sequence[StateSlice]], start_ns: int, stop_ns: int
) -> Counter[Root]:
    return chain_roots.roots(tid, lambda tid: threads.get(tid, ()), start_ns, stop_ns)


def blocked_ns(slices: list[StateSlice], start: int, stop: int) -> int:
    return sum(
        max(0, min(each.until_ns, stop) - max(each.since_ns, start))
        for each in slices
        if each.state == "blocked"
    )


@given(timelines(), st.integers(0, 200), st.integers(0, 400))
def test_parts_add_up_to_the_wait(
    threads: dict[int, list[StateSlice]], start: int, length: int
) -> None:
    for tid, slices in threads.items():
        found = roots(tid, threads, start, start + length)
        assert sum(found.values()) == blocked_ns(slices, start, start + length)
        assert all(ns > 0 for ns in found.values())


@given(timelines())
def test_no_thread_is_in_a_chain_twice(threads: dict[int, list[StateSlice]]) -> None:
    for tid in threads:
        for root in roots(tid, threads, 0, 1000):
            assert len({tid, *root.tids}) == len(root.tids) + 1
            assert len(root.tids) <= MOST_HOPS


@pytest.mark.parametrize("writes", [True, False])
def test_who_is_to_read_a_terminal_is_the_root_and_no_person_that_types(writes: bool) -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "terminal", 2, writes_to_terminal=writes)],
        2: [StateSlice(0, 100, "stopped")],
    }
    root = Root((2,), "stopped") if writes else Root((), "blocked", "terminal")
    assert roots(1, threads, 0, 100) == {root: 100}


def test_root_is_what_the_last_one_did() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "pipe", 2)],
        2: [
            StateSlice(0, 10, "running"),
            StateSlice(10, 90, "blocked", "socket_receive", 3),
            StateSlice(90, 200, "running"),
        ],
        3: [StateSlice(0, 60, "throttled"), StateSlice(60, 95, "running")],
    }
    assert roots(1, threads, 0, 100) == Counter(
        {
            Root((2,), "running"): 20,
            Root((2, 3), "throttled"): 50,
            Root((2, 3), "running"): 30,
        }
    )


def test_timer_ends_a_chain() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "pipe", 2)],
        2: [StateSlice(0, 100, "blocked", "clock", 0)],
    }
    assert roots(1, threads, 20, 100) == Counter({Root((2,), "blocked", "clock"): 80})


def test_waker_that_is_not_followed_is_named_and_not_known() -> None:
    threads = {1: [StateSlice(0, 100, "blocked", "futex", 9)]}
    assert roots(1, threads, 0, 100) == Counter({Root((9,), "unknown", gap="not_followed"): 100})


def test_circle_is_not_known() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "futex", 2)],
        2: [StateSlice(0, 100, "blocked", "futex", 1)],
    }
    assert roots(1, threads, 0, 100) == Counter({Root((2,), "unknown", "futex", gap="circle"): 100})


def test_chain_is_followed_for_six_hops() -> None:
    threads = {tid: [StateSlice(0, 10, "blocked", "pipe", tid + 1)] for tid in range(1, 9)}
    root = Root((2, 3, 4, 5, 6, 7), "unknown", "pipe", gap="hops")
    assert roots(1, threads, 0, 10) == Counter({root: 10})


def test_end_of_a_chain_has_its_call_and_why_it_is_one() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "poll", 2, syscall=7)],
        2: [
            StateSlice(0, 70, "blocked", "epoll", syscall=232, gap="lasts"),
            StateSlice(70, 100, "blocked", "epoll", syscall=232, gap="interrupt"),
        ],
    }
    assert roots(1, threads, 0, 100) == Counter(
        {
            Root((2,), "unknown", "epoll", syscall=232, gap="lasts"): 70,
            Root((2,), "unknown", "epoll", syscall=232, gap="interrupt"): 30,
        }
    )
    own = [StateSlice(0, 100, "blocked", "poll", syscall=7, gap="lasts")]
    assert roots(1, {1: own}, 0, 100) == Counter({Root((), "unknown", "poll"): 100})


def test_process_of_several_threads_is_an_end_unless_it_was_stopped() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "pipe", 2, gap="threads")],
        2: [
            StateSlice(0, 30, "stopped"),
            StateSlice(30, 60, "running"),
            StateSlice(60, 100, "blocked", "clock"),
        ],
    }
    assert roots(1, threads, 0, 100) == Counter(
        {Root((2,), "stopped"): 30, Root((2,), "unknown", gap="threads"): 70}
    )


def test_time_out_is_for_a_process_that_was_stopped_meanwhile() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "poll", 2, gap="interrupt", ended_ns=100)],
        2: [StateSlice(0, 30, "running"), StateSlice(30, 100, "stopped")],
    }
    assert roots(1, threads, 0, 100) == Counter(
        {Root((), "unknown", "poll"): 30, Root((2,), "stopped"): 70}
    )
    threads[3] = [StateSlice(0, 100, "blocked", "pipe", 1, ended_ns=100)]
    assert roots(3, threads, 0, 100) == Counter(
        {Root((1,), "unknown", "poll", gap="interrupt"): 30, Root((1, 2), "stopped"): 70}
    )


def test_wait_for_a_request_is_idleness_of_the_first_alone() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "epoll", 2, is_idle=True)],
        2: [StateSlice(0, 100, "running")],
        3: [StateSlice(0, 100, "blocked", "pipe", 1)],
    }
    assert roots(1, threads, 0, 100) == Counter({Root((2,), "running", is_idle=True): 100})
    assert roots(3, threads, 0, 100) == Counter({Root((1, 2), "running"): 100})
    timed_out = [replace(threads[1][0], gap="interrupt", ended_ns=100)]
    assert roots(1, threads | {1: timed_out}, 0, 100) == Counter(
        {Root((), "unknown", "epoll"): 100}
    )


def test_runnable_root_has_its_taker_and_a_disk_its_device() -> None:
    threads = {
        1: [StateSlice(0, 100, "blocked", "pipe", 2)],
        2: [StateSlice(0, 60, "runnable", waker=8), StateSlice(60, 100, "blocked", "disk", 0, 9)],
    }
    assert roots(1, threads, 0, 100) == Counter(
        {
            Root((2,), "runnable", taker=8): 60,
            Root((2,), "blocked", "disk", device=9): 40,
        }
    )


CLIENT, SERVER, BACKEND, CHATTER, SECOND = range(1, 6)


def slept(
    since: int,
    until: int,
    waker: int,
    reason: SleepReason,
    *,
    lasts: bool = False,
    by_client: bool = False,
) -> StateSlice:
    ended_ns = 0 if lasts else until
    gap: ChainGap | None = "lasts" if lasts and not waker else None
    return StateSlice(
        since, until, "blocked", reason, waker, gap=gap, ended_ns=ended_ns, by_client=by_client
    )


def ran(since: int, until: int) -> StateSlice:
    return StateSlice(since, until, "running")


def test_whoever_a_server_answers_from_is_who_it_waited_for() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "pipe")],
        SERVER: [
            ran(1000, 1002),
            slept(1002, 1020, CHATTER, "epoll"),
            ran(1020, 1021),
            slept(1021, 1095, BACKEND, "epoll"),
            ran(1095, 1100),
        ],
        BACKEND: [slept(500, 1001, SERVER, "pipe"), ran(1001, 1096)],
        CHATTER: [slept(900, 1020, 0, "clock")],
    }
    assert roots(CLIENT, threads, 1000, 2000) == Counter(
        {Root((SERVER, BACKEND), "running"): 18 + 74, Root((SERVER,), "running"): 8}
    )


def test_a_server_may_ask_one_after_the_other() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "pipe")],
        SERVER: [
            ran(1000, 1002),
            slept(1002, 1050, BACKEND, "poll"),
            ran(1050, 1052),
            slept(1052, 1095, SECOND, "poll"),
            ran(1095, 1100),
        ],
        BACKEND: [slept(500, 1001, SERVER, "pipe"), ran(1001, 1051)],
        SECOND: [slept(500, 1051, SERVER, "pipe"), ran(1051, 1096)],
    }
    assert roots(CLIENT, threads, 1000, 2000) == Counter(
        {
            Root((SERVER, BACKEND), "running"): 48,
            Root((SERVER, SECOND), "running"): 43,
            Root((SERVER,), "running"): 9,
        }
    )


def test_a_server_that_has_not_answered_may_have_served_others() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "pipe", lasts=True)],
        SERVER: [
            slept(900, 1020, CHATTER, "epoll"),
            ran(1020, 1021),
            slept(1021, 1100, 0, "epoll", lasts=True),
        ],
        CHATTER: [slept(900, 1020, 0, "clock")],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {
            Root((SERVER,), "unknown", "epoll", gap="for_whom"): 20,
            Root((SERVER,), "unknown", "epoll", gap="lasts"): 79,
            Root((SERVER,), "running"): 1,
        }
    )


def test_a_wait_that_the_window_cuts_has_its_answer_behind_it() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "pipe")],
        SERVER: [slept(1000, 1040, CHATTER, "poll"), slept(1040, 1099, BACKEND, "poll")],
        BACKEND: [ran(900, 1100)],
        CHATTER: [slept(900, 1040, 0, "clock")],
    }
    assert roots(CLIENT, threads, 1000, 1030) == Counter({Root((SERVER, BACKEND), "running"): 30})


def test_what_a_server_did_before_its_timer_is_not_known() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "pipe")],
        SERVER: [
            slept(1000, 1040, CHATTER, "poll"),
            ran(1040, 1041),
            replace(slept(1041, 1099, 0, "poll"), gap="interrupt"),
            ran(1099, 1100),
        ],
        CHATTER: [slept(900, 1039, 0, "clock")],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {
            Root((SERVER,), "unknown", "poll", gap="for_whom"): 40,
            Root((SERVER,), "unknown", "poll", gap="interrupt"): 58,
            Root((SERVER,), "running"): 2,
        }
    )


@pytest.mark.parametrize(("ender", "gap"), [(0, "interrupt"), (CHATTER, "for_whom")])
def test_timer_that_ends_polls_is_nobody_who_is_served(ender: int, gap: ChainGap) -> None:
    """As of an editor that looks twice a second, while its parent waits for its end."""
    ticked = replace(slept(1000, 1099, ender, "poll"), gap=None if ender else "interrupt")
    threads = {
        CLIENT: [replace(slept(1000, 1100, SERVER, "child"), ended_ns=0)],
        SERVER: [ticked, ran(1099, 1100)],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {Root((SERVER,), "unknown", "poll", gap=gap): 99, Root((SERVER,), "running"): 1}
    )


def test_timer_before_the_one_that_led_to_the_answer_is_a_timer() -> None:
    """As of a server with one client that sleeps twice for its answer."""
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "socket_receive")],
        SERVER: [
            replace(slept(1000, 1040, 0, "epoll"), gap="interrupt"),
            ran(1040, 1041),
            replace(slept(1041, 1099, 0, "epoll"), gap="interrupt"),
            ran(1099, 1100),
        ],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {
            Root((SERVER,), "unknown", "epoll", gap="interrupt"): 40 + 58,
            Root((SERVER,), "running"): 2,
        }
    )


def test_another_client_that_was_served_before_is_no_root() -> None:
    """As one that asks redis for something else while it holds a BLPOP back."""
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "socket_receive")],
        SERVER: [
            ran(1000, 1002),
            slept(1002, 1040, CHATTER, "epoll", by_client=True),
            ran(1040, 1045),
            slept(1045, 1090, CHATTER, "epoll", by_client=True),
            ran(1090, 1100),
        ],
        CHATTER: [slept(900, 1040, 0, "clock"), ran(1040, 1090)],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {
            Root((SERVER,), "unknown", "epoll", gap="serves"): 38 + 45,
            Root((SERVER,), "unknown", gap="serves"): 5,
            Root((SERVER,), "running"): 2 + 10,
        }
    )


def test_client_whose_request_led_to_the_answer_is_waited_for() -> None:
    """As one that pushes what a BLPOP waits for."""
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "socket_receive")],
        SERVER: [ran(1000, 1002), slept(1002, 1090, CHATTER, "epoll", by_client=True)],
        CHATTER: [slept(900, 1090, 0, "clock")],
    }
    found = roots(CLIENT, threads, 1000, 1090)
    assert found[Root((SERVER, CHATTER), "blocked", "clock")] == 88


def test_server_that_is_asked_twice_is_waited_for_twice() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "socket_receive")],
        SERVER: [
            ran(1000, 1002),
            slept(1002, 1040, BACKEND, "epoll"),
            ran(1040, 1042),
            slept(1042, 1090, BACKEND, "epoll"),
            ran(1090, 1100),
        ],
        BACKEND: [
            slept(900, 1002, SERVER, "pipe"),
            ran(1002, 1040),
            slept(1040, 1042, SERVER, "pipe"),
            ran(1042, 1091),
        ],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {Root((SERVER, BACKEND), "running"): 38 + 48, Root((SERVER,), "running"): 14}
    )


def test_work_for_another_client_is_not_for_who_waits_still() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "socket_receive", lasts=True)],
        SERVER: [
            slept(900, 1020, CHATTER, "epoll", by_client=True),
            ran(1020, 1050),
            slept(1050, 1100, 0, "epoll", lasts=True),
        ],
    }
    assert roots(CLIENT, threads, 1000, 1100) == Counter(
        {
            Root((SERVER,), "unknown", "epoll", gap="serves"): 20,
            Root((SERVER,), "unknown", gap="serves"): 30,
            Root((SERVER,), "unknown", "epoll", gap="lasts"): 50,
        }
    )


def test_work_for_who_waits_is_the_server_s() -> None:
    threads = {
        CLIENT: [slept(1000, 1100, SERVER, "socket_receive", lasts=True)],
        SERVER: [
            slept(900, 1001, CLIENT, "epoll", by_client=True),
            ran(1001, 1050),
            slept(1050, 1100, 0, "epoll", lasts=True),
        ],
    }
    assert roots(CLIENT, threads, 1000, 1100)[Root((SERVER,), "running")] == 49
