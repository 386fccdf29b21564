"""The slices of a followed thread, from events of its switches and wake-ups."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.capture.chains import states as module
from kernel_delay.capture.chains._chain_records import ffi, lib
from kernel_delay.capture.chains.parts import exact_parts
from kernel_delay.capture.chains.slices import Ender, Place, Was, merged, slice_of
from kernel_delay.capture.chains.states import (
    LEAVES_NS,
    MOST_SLICES,
    RESUMES_NS,
    TAKER_NS,
    ThreadStates,
)
from kernel_delay.loader._records import lib as session
from kernel_delay.model import ChainPart, ChainState, ChainThread, SleepReason
from tests.system_calls import syscall_number

ON_PIPE = Place("pipe", 0, 5, 77)
ON_DISK = Place("disk", 295, 6, 78, 9)


def note(states: ThreadStates, now_ns: int, kind: int, state: int, **more: int) -> None:
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = now_ns, kind, state
    event.switches = more.get("switches", states.switches + (kind == lib.CHAIN_LEFT_CPU))
    event.waker, event.waker_process = more.get("waker", 0), more.get("waker_process", 0)
    event.waker_kind = more.get("waker_kind", session.WAKER_UNKNOWN)
    states.note(event, ON_PIPE if state == session.STATE_BLOCKED else None)


def seen(states: ThreadStates, stop_ns: int) -> list[tuple[int, int, ChainState, int]]:
    return [(was.since_ns, was.until_ns, was.state, was.waker) for was in states.until(stop_ns)]


def followed() -> ThreadStates:
    """One that was seen to run at 10."""
    states = ThreadStates(7, 7, "server")
    note(states, 10, lib.CHAIN_SEEN, session.STATE_RUNNING)
    return states


def test_sleep_ends_with_its_waker() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    waker = {"waker": 9, "waker_process": 8, "waker_kind": session.WAKER_THREAD}
    note(states, 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN, **waker)
    note(states, 60, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    assert seen(states, 100) == [
        (10, 20, "running", 0),
        (20, 50, "blocked", 9),
        (50, 60, "runnable", 0),
        (60, 100, "running", 0),
    ]
    assert states.until(100)[1].place == ON_PIPE


def test_state_of_before_is_not_that_of_the_iterator() -> None:
    states = ThreadStates(7, 7, "server")
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_STOPPED)
    note(states, 30, lib.CHAIN_SEEN, session.STATE_RUNNING)
    assert seen(states, 40) == [(20, 40, "stopped", 0)]


def test_thread_that_is_woken_before_it_sleeps_runs_on() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN, waker=9)
    note(states, 30, lib.CHAIN_LEFT_CPU, session.STATE_READY_PREEMPTED)
    assert seen(states, 40) == [(10, 30, "running", 0), (30, 40, "runnable", 0)]


def blocked(since_ns: int) -> ThreadStates:
    """One that ran from 10 on and sleeps since then."""
    states = followed()
    note(states, since_ns, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    return states


RUN = (10, 20, "running", 0)


def test_lost_wake_up_and_run_are_not_known() -> None:
    states = blocked(20)
    # It was woken, ran and slept again in between.
    note(states, 50, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED, switches=2)
    assert seen(states, 60) == [RUN, (50, 60, "blocked", 0)]


def test_lost_wake_up_leaves_the_sleep_unknown() -> None:
    states = blocked(20)
    note(states, 50, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    assert seen(states, 60) == [RUN, (50, 60, "running", 0)]


def test_lost_sleep_is_not_known() -> None:
    states = followed()
    note(states, 50, lib.CHAIN_GOT_CPU, session.STATE_RUNNING, switches=1)
    assert seen(states, 60) == [(50, 60, "running", 0)]


def test_lost_run_is_not_known() -> None:
    states = blocked(20)
    note(states, 30, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN, waker=9)
    note(states, 50, lib.CHAIN_LEFT_CPU, session.STATE_STOPPED)
    assert seen(states, 60) == [RUN, (20, 30, "blocked", 9), (50, 60, "stopped", 0)]


def test_waker_of_another_sleep_is_not_that_of_this_one() -> None:
    states = blocked(20)
    note(states, 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN, waker=9, switches=2)
    assert seen(states, 60) == [RUN, (50, 60, "runnable", 0)]


def test_thread_that_others_lost_events_of_stays_known() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_STOPPED)
    note(states, 900, lib.CHAIN_SEEN, session.STATE_STOPPED)
    assert seen(states, 1000) == [RUN, (20, 1000, "stopped", 0)]


@pytest.mark.parametrize(
    ("state", "switches", "expected"),
    [
        (session.STATE_STOPPED, 2, "stopped"),
        (session.STATE_READY_WOKEN, 1, "runnable"),
        (session.STATE_RUNNING, 1, "running"),
    ],
)
def test_state_after_lost_events_is_that_of_the_iterator(
    state: int, switches: int, expected: ChainState
) -> None:
    states = blocked(20)
    seen_ns = 30 + LEAVES_NS
    note(states, seen_ns, lib.CHAIN_SEEN, state, switches=switches)
    assert seen(states, seen_ns + 10) == [RUN, (seen_ns, seen_ns + 10, expected, 0)]


def test_thread_in_line_that_is_throttled_keeps_its_wait() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_READY_PREEMPTED)
    note(states, 30, lib.CHAIN_SEEN, session.STATE_THROTTLED)
    assert seen(states, 40) == [RUN, (20, 40, "runnable", 0)]


def test_switches_of_32_bits_wrap_around() -> None:
    states = ThreadStates(7, 7, "server")
    note(states, 10, lib.CHAIN_SEEN, session.STATE_RUNNING, switches=0xFFFFFFFF)
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED, switches=0)
    assert seen(states, 60) == [RUN, (20, 60, "blocked", 0)]


def test_ended_thread_is_forgotten() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_NOT_ALIVE)
    assert not states.is_over
    states.drop(20)
    assert states.is_over


def test_timer_that_ends_a_futex_wait_is_its_root() -> None:
    place = Place("futex", 202)
    was = Was(0, 10, "blocked", place, 0, 0, "hard_irq")
    assert slice_of(was, Ender(), 10).reason == "clock"
    assert slice_of(Was(0, 10, "blocked", place), Ender(), 10).reason == "futex"


def lives(pid: int) -> bool:
    """Say of a process that it has not ended."""
    return False


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.integers(-1000, 10**9))
def test_parts_add_up_to_the_blocked_time(lengths: list[int], more_ns: int) -> None:
    found = {ChainPart((ChainThread(n, n, ""),), "running", 0): ns for n, ns in enumerate(lengths)}
    blocked_ns = max(1, sum(lengths) + more_ns)
    parts = exact_parts(found, blocked_ns, lives)
    assert sum(part.ns for part in parts) == blocked_ns
    assert all(part.ns > 0 for part in parts)


def test_processes_of_a_name_that_were_not_followed_are_one_part() -> None:
    """A server may start one for each request: each by itself is too little to be named."""
    server = ChainThread(50, 50, "server")
    ends = {"sh": range(60, 100), "awk": range(100, 101)}
    found = {
        ChainPart((server, ChainThread(pid, pid, name)), "unknown", 0, gap="not_followed"): 10
        for name, pids in ends.items()
        for pid in pids
    }
    several = (server, ChainThread(0, 0, "sh"))
    shells, other = exact_parts(found, 410, lambda pid: True)
    assert (shells.threads, shells.ns, shells.gap) == (several, 400, "not_followed")
    assert (other.threads[-1].tid, other.ns) == (100, 10)


def test_processes_that_live_keep_their_pids() -> None:
    """Backends of a server, which were not followed: each can be looked at."""
    server = ChainThread(50, 50, "server")
    found = {
        ChainPart((server, ChainThread(pid, pid, "backend")), "unknown", 0, gap="not_followed"): ns
        for pid, ns in ((60, 300), (61, 100))
    }
    assert [part.threads[-1].pid for part in exact_parts(found, 400, lives)] == [60, 61]


def test_processes_of_a_name_that_are_gone_are_one_part() -> None:
    """All of them were followed, and are more than there is room for."""
    server = ChainThread(50, 50, "server")
    found = {
        ChainPart((server, ChainThread(pid, pid, "sh")), "running", 0): 10 for pid in range(60, 100)
    }
    several = (server, ChainThread(0, 0, "sh"))
    (gone, living) = exact_parts(found, 400, lambda pid: pid != 99)
    assert (gone.threads, gone.ns, gone.state) == (several, 390, "running")
    assert living.threads == (server, ChainThread(99, 99, "sh"))


@pytest.mark.parametrize(
    ("reason", "call", "asked", "ended", "kind"),
    [
        ("child", "wait4", 0xFFFFFFFF, 3, "thread"),
        # As the thread numbers it, which may be in a PID namespace of its own.
        ("child", "wait4", 3, 3, "thread"),
        ("child", "wait4", 9, 3, "unknown"),
        ("child", "wait4", 9, 0, "unknown"),
        ("child", "waitid", 0, 3, "thread"),
        # P_PID: of which child is not known.
        ("child", "waitid", 1, 3, "unknown"),
        ("signal", "rt_sigsuspend", 0, 3, "thread"),
        ("signal", "rt_sigsuspend", 0, 0, "unknown"),
        ("poll", "poll", 3, 3, "unknown"),
    ],
)
def test_child_that_tells_its_end_by_a_signal_ends_the_wait_for_it(
    reason: SleepReason, call: str, asked: int, ended: int, kind: str
) -> None:
    """As of a shell, which has a handler of SIGCHLD. A poll may have been for something else."""
    states = followed()
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = 20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED
    event.switches = states.switches + 1
    number = syscall_number(call)
    assert number is not None
    states.note(event, Place(reason, number, asked))
    event.now_ns, event.kind, event.state = 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    event.waker = event.waker_process = 9
    event.ended_child = ended
    states.note(event, None)
    assert states.done[-1].waker_kind == kind
    place = states.done[-1].place
    assert place is not None
    assert (place.reason == "signal") == (reason == "signal" and not ended)


def test_thread_has_the_name_that_it_had_most_of_the_time() -> None:
    """It may become another program, which has nothing to do with what it did before."""
    states = ThreadStates(7, 7, "perl")
    note(states, 10, lib.CHAIN_SEEN, session.STATE_RUNNING)
    assert states.name == "perl"
    states.rename("perl")
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    note(states, 90, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN)
    note(states, 91, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    states.rename("true")
    note(states, 95, lib.CHAIN_LEFT_CPU, session.STATE_NOT_ALIVE)
    assert states.name == "perl"


def test_thread_with_ever_new_names_keeps_few() -> None:
    states = followed()
    for n in range(2 * module.MOST_NAMES):
        states.rename(f"job {n}")
        note(states, 20 + 2 * n, lib.CHAIN_LEFT_CPU, session.STATE_READY_PREEMPTED)
        note(states, 21 + 2 * n, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    states.drop(0)
    states.rename("last")
    assert states.name == "last"


def test_whoever_stopped_it_is_known_by_then() -> None:
    """Another signal that comes later, or who has it go on, stopped nothing."""
    states = followed()
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = 20, lib.CHAIN_LEFT_CPU, session.STATE_STOPPED
    event.switches = states.switches + 1
    states.note(event, None, 8)
    assert [(was.state, was.waker) for was in states.until(40)][-1] == ("stopped", 8)
    note(states, 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN, waker=9, waker_process=9)
    assert (20, 50, "stopped", 8) in seen(states, 60)


def test_what_a_freezer_held_asleep_is_not_known() -> None:
    """cgroup v1's: no event says since when."""
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    event = ffi.new("struct chain_event *")
    event.now_ns, event.kind, event.state = 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN
    event.switches, event.was_frozen = states.switches, 1
    states.note(event, None)
    assert (20, 50, "unknown", 0) in seen(states, 60)


def test_short_processes_are_one_hop_anywhere_in_a_chain() -> None:
    """Of a shell that runs one for each request neither has more than its name."""
    found = {
        ChainPart((ChainThread(pid, pid, "sh"), ChainThread(pid + 1, pid + 1, "date")), state, 0): 5
        for pid in range(60, 80, 2)
        for state in ("running", "runnable")
    }
    several = (ChainThread(0, 0, "sh"), ChainThread(0, 0, "date"))
    parts = exact_parts(found, 100, lambda pid: True)
    assert [(part.threads, part.ns) for part in parts] == [(several, 50), (several, 50)]


def test_those_that_stopped_them_are_one_too() -> None:
    found = {
        ChainPart((ChainThread(50 + n, 50 + n, "victim"),), "stopped", 0, by=by): 10
        for n, by in ((1, ChainThread(71, 71, "killer")), (2, ChainThread(72, 72, "killer")))
    }
    (part,) = exact_parts(found, 20, lambda pid: True)
    assert (part.threads, part.by) == ((ChainThread(0, 0, "victim"),), ChainThread(0, 0, "killer"))


@pytest.mark.parametrize(
    ("kind", "woke", "ran_ns", "awaited"),
    [
        (session.WAKER_HARD_IRQ, False, 5, 9),
        (session.WAKER_HARD_IRQ, True, 5, 0),
        (session.WAKER_HARD_IRQ, False, 2 * RESUMES_NS, 0),
        (session.WAKER_SOFT_IRQ, False, 5, 0),
    ],
)
def test_poll_behind_a_time_out_waits_for_the_same_process(
    kind: int, woke: bool, ran_ns: int, awaited: int
) -> None:
    states = followed()

    def note(now_ns: int, what: int, state: int, waker_kind: int = 0) -> None:
        event = ffi.new("struct chain_event *")
        event.now_ns, event.kind, event.state, event.waker_kind = now_ns, what, state, waker_kind
        event.switches = states.switches + (what == lib.CHAIN_LEFT_CPU)
        states.note(event, Place("poll", 7, 5) if what == lib.CHAIN_LEFT_CPU else None)

    note(20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    states.judge(9)
    note(50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN, kind)
    note(60, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    if woke:
        states.woke(62)
    note(60 + ran_ns, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    assert states.awaited == awaited
    # Whom it polls now is looked at again, if that lasts.
    assert states.unjudged is not None


def test_what_a_thread_did_in_a_time_ends_at_its_bounds() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_BLOCKED)
    note(states, 50, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN)
    note(states, 60, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    assert states.ran_ns(15, 70) == 5 + 10 + 10
    assert states.ran_ns(20, 50) == 0
    assert states.slept_at(lambda place: place == ON_PIPE, 20, 50)
    assert not states.slept_at(lambda place: place == ON_PIPE, 20, 51)
    assert not states.slept_at(lambda place: place != ON_PIPE, 20, 50)
    assert not states.slept_at(lambda place: True, 0, 10)
    assert states.ended_at(lambda place: place == ON_PIPE, 50)
    assert not states.ended_at(lambda place: True, 20)


def test_runnable_thread_knows_who_had_the_cpu() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_READY_PREEMPTED, waker=5)
    assert seen(states, 30)[-1] == (20, 30, "runnable", 5)
    note(states, 40, lib.CHAIN_GOT_CPU, session.STATE_RUNNING, waker=6)
    assert seen(states, 50) == [
        (10, 20, "running", 0),
        (20, 40, "runnable", 6),
        (40, 50, "running", 0),
    ]


def test_who_has_the_cpu_is_sampled_while_a_thread_waits() -> None:
    states = ThreadStates(7, 7, "server")
    for now_ns, taker in ((10, 5), (60, 6), (110, 5)):
        note(states, now_ns, lib.CHAIN_SEEN, session.STATE_READY_PREEMPTED, waker=taker)
    assert seen(states, 120) == [
        (10, 60, "runnable", 6),
        (60, 110, "runnable", 5),
        (110, 120, "runnable", 5),
    ]


def test_last_task_is_not_the_taker_of_a_long_wait() -> None:
    states = followed()
    note(states, 20, lib.CHAIN_LEFT_CPU, session.STATE_READY_PREEMPTED, waker=5)
    note(states, 20 + 2 * TAKER_NS, lib.CHAIN_GOT_CPU, session.STATE_RUNNING, waker=6)
    assert seen(states, 20 + 2 * TAKER_NS)[-1] == (20, 20 + 2 * TAKER_NS, "runnable", 0)


def reads(count: int, *, since_ns: int = 0, on: Place = ON_DISK) -> list[Was]:
    """So many calls that run for 3 us and sleep for 7, each ended in a different task."""
    found = []
    for at_ns in range(since_ns, since_ns + count * 10_000, 10_000):
        found.append(Was(at_ns, at_ns + 3_000, "running"))
        waker = at_ns % 97
        found.append(Was(at_ns + 3_000, at_ns + 10_000, "blocked", on, waker, waker, "soft_irq"))
    return found


def times(slices: list[Was]) -> Counter[tuple[ChainState, Place | None]]:
    found: Counter[tuple[ChainState, Place | None]] = Counter()
    for was in slices:
        found[was.state, was.place] += was.until_ns - was.since_ns
    return found


def test_merged_reads_of_a_disk_keep_their_time() -> None:
    before = reads(1000)
    after = merged(before, 1_000_000)
    assert len(after) == 20
    assert times(after) == times(before)
    assert all(was.until_ns == then.since_ns for was, then in pairwise(after))
    assert merged(after, 1_000_000) == after


def test_waits_for_other_threads_are_not_merged() -> None:
    before = reads(1000, on=ON_PIPE)
    assert merged(before, 1_000_000) == before


def test_merged_slices_leave_gaps_as_they_are() -> None:
    before = reads(10) + reads(10, since_ns=200_000)
    assert [(was.since_ns, was.until_ns) for was in merged(before, 1_000_000)] == [
        (0, 30_000),
        (30_000, 100_000),
        (200_000, 230_000),
        (230_000, 300_000),
    ]


def read_often(states: ThreadStates, count: int, place: Place) -> list[Was]:
    """Note so many calls of 10 us from 10 on."""
    for at_ns in range(10, 10 + count * 10_000, 10_000):
        event = ffi.new("struct chain_event *")
        event.now_ns, event.kind = at_ns + 3_000, lib.CHAIN_LEFT_CPU
        event.state, event.switches = session.STATE_BLOCKED, states.switches + 1
        states.note(event, place)
        note(states, at_ns + 9_000, lib.CHAIN_WOKEN, session.STATE_READY_WOKEN)
        note(states, at_ns + 10_000, lib.CHAIN_GOT_CPU, session.STATE_RUNNING)
    return states.until(10 + count * 10_000)


def test_busy_disk_is_known_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SLICES", MOST_SLICES // 50)
    slices = read_often(followed(), 5000, ON_DISK)
    assert len(slices) <= MOST_SLICES // 50
    assert times(slices) == {
        ("running", None): 15_000_000,
        ("blocked", ON_DISK): 30_000_000,
        ("runnable", None): 5_000_000,
    }


def test_slices_are_bounded_where_none_can_be_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SLICES", MOST_SLICES // 50)
    tried = list[int]()
    monkeypatch.setattr(module, "merged", lambda slices, within_ns: tried.append(within_ns))
    slices = read_often(followed(), 5000, ON_PIPE)
    assert len(slices) <= MOST_SLICES // 50
    assert slices[-1].until_ns == 50_000_010
    # It takes long to find that out for each length.
    assert not tried


def test_parts_of_many_threads_are_added_up_by_process() -> None:
    found = {
        ChainPart((ChainThread(60 + n, 50, f"w{n}", process="backend"),), "blocked", 0, "clock"): n
        for n in range(1, 101)
    }
    parts = exact_parts(found, 5_050, lives)
    assert parts[0].threads == (ChainThread(0, 50, "backend", process="backend"),)
    assert parts[0].ns == sum(range(1, 93))
    assert len(parts) == 9
    assert not any(part.state == "unknown" for part in parts)


def test_thread_that_many_of_a_server_wait_for_keeps_its_name() -> None:
    root = ChainThread(59, 50, "loader", process="backend")
    found = {
        ChainPart(
            (ChainThread(60 + n, 50, f"w{n}", process="backend"), root), "blocked", 0, "clock"
        ): 10
        for n in range(1, 101)
    }
    parts = exact_parts(found, 1_000, lives)
    assert parts[0].threads == (ChainThread(0, 50, "backend", process="backend"), root)
    assert parts[0].ns == 920
