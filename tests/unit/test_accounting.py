"""Accounting: against a clock that looks at a thread in every nanosecond."""

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.analysis.accounting import (
    NOT_RUNNING,
    NOTHING_COUNTED,
    Account,
    CallTime,
    Counted,
    CountedCalls,
    Mode,
    NotRunning,
    State,
    ThreadState,
    account,
    unaccounted,
)
from kernel_delay.model import ThreadTime

START_NS, STOP_NS = 30, 70


class Tick(NamedTuple):
    """What a thread does in one nanosecond; `calls` counts its system calls up to then."""

    mode: Mode
    state: State
    interrupt: NotRunning | None = None
    syscall: int | None = None
    calls: int = 0


class Life(NamedTuple):
    """A thread from nanosecond 0 on, and the nanosecond by which all its events were counted."""

    ticks: list[Tick]
    counted_until: int


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """Any life: absent, then in modes and states that last any time, and perhaps absent again."""
    ticks: list[Tick] = []
    calls = 0
    ticks += [Tick("user", "absent")] * draw(st.integers(0, 50))
    while len(ticks) < 100:
        mode: Mode = draw(st.sampled_from(["user", "syscall", "fault"]))
        syscall = draw(st.sampled_from([1, 7, None])) if mode == "syscall" else None
        calls += 1
        for _ in range(draw(st.integers(1, 4))):
            state: State = draw(
                st.sampled_from(
                    ["running", "ready_woken", "ready_preempted", "blocked", "stopped", "unknown"]
                )
            )
            interrupt: NotRunning | None = None
            if state == "running":
                interrupt = draw(st.sampled_from([None, None, "hard_irq", "soft_irq"]))
            length = draw(st.integers(1, 15))
            ticks += [Tick(mode, state, interrupt, syscall, calls)] * length
        if draw(st.integers(0, 9)) == 0:
            ticks += [Tick("user", "absent")] * 100
    return Life(ticks[:100], draw(st.integers(STOP_NS, 99)))


def since(ticks: list[Tick], key: object, end: int) -> int:
    """From when on `key` of all ticks up to `end` has been what it is there."""
    begin = end
    while begin > 0 and key(ticks[begin - 1]) == key(ticks[end]):  # type: ignore[operator]
        begin -= 1
    return begin


def in_call(tick: Tick) -> object:
    return tick.mode, tick.syscall, tick.calls, tick.state == "absent"


def as_counted(life: Life) -> tuple[Counted, ThreadState]:
    """What the programs would have counted of a life, each interval at its end, and the rest."""
    ticks, until = life
    mode_since = since(ticks, in_call, until)
    state_since = since(ticks, lambda tick: (in_call(tick), tick.state), until)
    irq_since = since(ticks, lambda tick: (in_call(tick), tick.interrupt), until)
    mode_ns: Counter[Mode] = Counter()
    not_running_ns: Counter[tuple[Mode, NotRunning]] = Counter()
    calls: dict[int, tuple[Counter[str], Counter[NotRunning]]] = {}
    absent_ns = 0
    gone = None
    for now in range(START_NS, STOP_NS):
        tick = ticks[now]
        if tick.state == "absent":
            absent_ns += now < mode_since
            continue
        if now < mode_since:
            mode_ns[tick.mode] += 1
            if tick.syscall is not None:
                calls.setdefault(tick.syscall, (Counter(), Counter()))[0]["total"] += 1
        if tick.interrupt and now < irq_since:
            not_running_ns[tick.mode, tick.interrupt] += 1
        if tick.state in NOT_RUNNING and now < state_since:
            not_running_ns[tick.mode, tick.state] += 1
            if tick.syscall is not None:
                calls.setdefault(tick.syscall, (Counter(), Counter()))[1][tick.state] += 1
    last = ticks[until]
    if last.state == "absent" and mode_since > 0:
        gone = mode_since
    counted = Counted(
        mode_ns=mode_ns,
        not_running_ns=not_running_ns,
        absent_ns=absent_ns,
        exit_ns=gone,
        syscalls={
            number: CountedCalls(total["total"], its) for number, (total, its) in calls.items()
        },
    )
    return counted, ThreadState(
        last.mode,
        mode_since,
        last.state,
        state_since,
        last.syscall,
        hard_irq_since_ns=irq_since if last.interrupt == "hard_irq" else 0,
        soft_irq_since_ns=irq_since if last.interrupt == "soft_irq" else 0,
    )


def total(found: Account) -> int:
    time = found.time
    return (
        time.user_ns + time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns + time.ready_ns
        + time.blocked_ns + time.stopped_ns + time.absent_ns + time.unaccounted_ns
    )  # fmt: skip


@given(lives())
def test_account_is_what_a_look_at_every_nanosecond_finds(life: Life) -> None:
    counted, last = as_counted(life)

    found = account(START_NS, STOP_NS, counted, last)

    window = life.ticks[START_NS:STOP_NS]
    running = [tick for tick in window if tick.state == "running" and not tick.interrupt]
    states = Counter(tick.state for tick in window)
    assert found.missing_ns == 0
    assert found.time.unaccounted_ns == states["unknown"]
    assert found.time.user_ns == sum(tick.mode == "user" for tick in running)
    assert found.time.kernel_ns == sum(tick.mode != "user" for tick in running)
    assert found.fault_on_cpu_ns == sum(tick.mode == "fault" for tick in running)
    assert found.time.hard_irq_ns == sum(tick.interrupt == "hard_irq" for tick in window)
    assert found.time.soft_irq_ns == sum(tick.interrupt == "soft_irq" for tick in window)
    assert found.time.ready_ns == states["ready_woken"] + states["ready_preempted"]
    assert found.preempted_ns == states["ready_preempted"]
    assert found.time.blocked_ns == states["blocked"]
    assert found.time.stopped_ns == states["stopped"]
    assert found.time.absent_ns == states["absent"]
    assert total(found) == STOP_NS - START_NS
    for number in (1, 7):
        calls = [tick for tick in window if tick.syscall == number]
        if not calls:
            assert number not in found.syscalls
            continue
        of_calls = Counter(tick.state for tick in calls)
        time = found.syscalls[number]
        assert time.on_cpu_ns == of_calls["running"]
        assert time.ready_ns == of_calls["ready_woken"] + of_calls["ready_preempted"]
        assert (time.blocked_ns, time.stopped_ns) == (of_calls["blocked"], of_calls["stopped"])


MODES = st.sampled_from(["unknown", "user", "syscall", "fault"])
KINDS = st.sampled_from(["ready_woken", "blocked", "stopped", "hard_irq", "soft_irq"])
TIMES = st.integers(0, 1 << 62)


@given(
    mode_ns=st.dictionaries(MODES, TIMES),
    not_running_ns=st.dictionaries(st.tuples(MODES, KINDS), TIMES),
    absent_ns=TIMES,
    window_ns=TIMES,
)
def test_account_and_missing_time_add_up_to_the_window(
    mode_ns: dict[Mode, int],
    not_running_ns: dict[tuple[Mode, NotRunning], int],
    absent_ns: int,
    window_ns: int,
) -> None:
    counted = Counted(mode_ns, not_running_ns, absent_ns, None, {})
    found = account(7, 7 + window_ns, counted, None)
    assert total(found) - max(0, found.missing_ns) + found.missing_ns == window_ns
    # Of the missing time it may be known that the thread was off its CPU.
    off_cpu_ns = max(0, found.missing_ns) - found.time.unaccounted_ns
    assert 0 <= off_cpu_ns <= sum(not_running_ns.values())
    assert not off_cpu_ns or found.time.user_ns <= 0
    assert found.time.kernel_ns >= 0 or not found.time.unaccounted_ns


def test_thread_without_any_event_is_accounted_for() -> None:
    asleep = ThreadState("syscall", 0, "blocked", 0, 7)
    found = account(100, 500, NOTHING_COUNTED, asleep)
    assert found.time.blocked_ns == found.syscalls[7].blocked_ns == 400
    busy = ThreadState("unknown", 0, "running", 0, None)
    assert account(100, 500, NOTHING_COUNTED, busy).time.user_ns == 400


def test_hard_irq_within_a_soft_irq_is_counted_separately() -> None:
    last = ThreadState(
        "user", 100, "running", 100, None,
        hard_irq_since_ns=480, soft_irq_since_ns=300, soft_irq_lost_ns=30,
    )  # fmt: skip
    time = account(100, 500, NOTHING_COUNTED, last).time
    assert (time.hard_irq_ns, time.soft_irq_ns, time.user_ns) == (20, 150, 230)
    assert last.is_interrupted_at(301)
    assert not last.is_interrupted_at(300)


def test_what_is_not_known_is_unaccounted() -> None:
    found = account(100, 500, NOTHING_COUNTED, None)
    assert found.missing_ns == found.time.unaccounted_ns == 400
    late = ThreadState("user", 450, "running", 450, None)
    assert account(100, 500, NOTHING_COUNTED, late).time.unaccounted_ns == 350
    assert unaccounted(found, 400).time == found.time


def test_nothing_of_an_account_that_does_not_fit_is_kept() -> None:
    calls = {7: CountedCalls(30, {"blocked": 20, "ready_woken": 4})}
    counted_ns: dict[tuple[Mode, NotRunning], int] = {
        ("syscall", "blocked"): 20,
        ("syscall", "ready_preempted"): 4,
        ("fault", "blocked"): 3,
        ("syscall", "soft_irq"): 2,
    }
    counted = Counted({"syscall": 30, "fault": 9, "user": 5}, counted_ns, 0, None, calls)
    found = account(0, 40, counted, None)
    assert (found.missing_ns, found.calls_fit) == (-4, False)
    left = unaccounted(found, 40)
    assert left.time == ThreadTime(0, 0, 0, 0, 0, 0, 0, 0, unaccounted_ns=40)
    assert (left.preempted_ns, left.fault_on_cpu_ns, left.fault_blocked_ns) == (0, 0, 0)
    assert (left.call_soft_irq_ns, left.missing_ns, left.calls_fit) == (0, -4, False)
    assert left.syscalls == {7: CallTime(0, 0, 0, 0, 0, unaccounted_ns=30)}


def test_each_part_has_its_field() -> None:
    """What the programs count of a kind, each with another length."""
    kinds: dict[tuple[Mode, NotRunning], int] = {
        ("syscall", "hard_irq"): 1,
        ("syscall", "soft_irq"): 2,
        ("user", "ready_preempted"): 3,
        ("syscall", "ready_woken"): 4,
        ("fault", "blocked"): 5,
        ("syscall", "blocked"): 6,
        ("syscall", "stopped"): 7,
        ("syscall", "throttled"): 8,
        ("syscall", "frozen"): 9,
        ("syscall", "guest"): 10,
        ("user", "tool"): 11,
        ("syscall", "unknown"): 12,
    }
    of_call: dict[NotRunning, int] = {
        kind: ns for (mode, kind), ns in kinds.items() if mode == "syscall"
    }
    calls = {7: CountedCalls(100, of_call)}
    counted = Counted({"syscall": 100, "fault": 13, "user": 37}, kinds, 20, None, calls)
    found = account(0, 170, counted, None)
    assert found.time == ThreadTime(
        user_ns=37 - 3 - 11,
        kernel_ns=100 - 59 + 13 - 5,
        hard_irq_ns=1,
        soft_irq_ns=2,
        ready_ns=7,
        blocked_ns=11,
        stopped_ns=7,
        absent_ns=20,
        unaccounted_ns=12,
        guest_ns=10,
        throttled_ns=8,
        frozen_ns=9,
        tool_ns=11,
    )
    assert (found.preempted_ns, found.fault_on_cpu_ns, found.fault_blocked_ns) == (3, 8, 5)
    assert (found.call_soft_irq_ns, found.missing_ns, found.calls_fit) == (2, 0, True)
    assert found.syscalls[7] == CallTime(
        on_cpu_ns=44, ready_ns=4, blocked_ns=6, stopped_ns=24, guest_ns=10, unaccounted_ns=12
    )


def test_time_before_a_thread_began_and_after_it_ended_is_absent() -> None:
    counted = Counted({"user": 5}, {}, absent_ns=3, exit_ns=48, syscalls={})
    assert account(40, 60, counted, None).time.absent_ns == 3 + 12
    last = ThreadState("user", 48, "absent", 45, None)
    assert account(40, 60, replace(counted, exit_ns=None), last).time.absent_ns == 3 + 15


def test_a_wait_that_goes_on_was_in_part_for_quota() -> None:
    last = ThreadState("syscall", 10, "ready_woken", 20, 7, throttled_ns=6)
    found = account(START_NS, STOP_NS, NOTHING_COUNTED, last)
    assert (found.time.ready_ns, found.time.throttled_ns) == (34, 6)
    assert (found.syscalls[7].ready_ns, found.syscalls[7].stopped_ns) == (34, 6)


def test_an_interrupt_that_goes_on_is_added_to_those_before() -> None:
    counted = Counted({"user": 20}, {("user", "hard_irq"): 5}, 0, None, {})
    last = ThreadState("user", 50, "running", 50, None, hard_irq_since_ns=60, soft_irq_since_ns=60)
    time = account(START_NS, STOP_NS, counted, last).time
    assert (time.hard_irq_ns, time.soft_irq_ns) == (15, 0)
    last = replace(last, hard_irq_since_ns=55)
    time = account(START_NS, STOP_NS, counted, last).time
    assert (time.hard_irq_ns, time.soft_irq_ns) == (20, 10)


def test_time_off_a_cpu_beyond_its_mode_is_taken_from_what_is_not_known() -> None:
    kinds: dict[tuple[Mode, NotRunning], int] = {
        ("syscall", "blocked"): 30,
        ("syscall", "unknown"): 8,
    }
    found = account(0, 50, Counted({"syscall": 25, "user": 1}, kinds, 0, None, {}), None)
    time = found.time
    # 12 too many: the 8 that are not known, and 4 of the 24 that are missing.
    assert (time.user_ns, time.kernel_ns, time.blocked_ns) == (0, 0, 30)
    assert (time.unaccounted_ns, found.missing_ns) == (20, 24)


def test_calls_that_were_not_all_read_do_not_fit() -> None:
    last = ThreadState("user", 100, "running", 100, None)
    for total_ns, blocked_ns, fit in ((60, 50, True), (59, 50, False), (60, 49, False)):
        counted = Counted(
            mode_ns={"user": 40, "syscall": 60},
            not_running_ns={("syscall", "blocked"): 50},
            absent_ns=0,
            exit_ns=None,
            syscalls={7: CountedCalls(total_ns, {"blocked": blocked_ns})},
        )
        found = account(0, 100, counted, last)
        assert (found.missing_ns, found.calls_fit) == (0, fit)


def test_interrupt_in_the_wrong_mode_leaves_no_negative_time() -> None:
    counted = Counted(
        mode_ns={"user": 5, "syscall": 95},
        not_running_ns={("user", "hard_irq"): 15},
        absent_ns=0,
        exit_ns=None,
        syscalls={},
    )
    found = account(0, 100, counted, None)
    assert (found.time.user_ns, found.time.kernel_ns, found.time.hard_irq_ns) == (0, 85, 15)


def test_sleep_in_a_mode_without_an_end_is_no_negative_time() -> None:
    """As where the return of a call was missed, and the sleep in it was charged."""
    counted = Counted(
        mode_ns={"syscall": 5},
        not_running_ns={("syscall", "blocked"): 80},
        absent_ns=0,
        exit_ns=None,
        syscalls={},
    )
    found = account(0, 100, counted, None)
    assert (found.time.kernel_ns, found.time.blocked_ns, found.time.unaccounted_ns) == (0, 80, 20)
    assert found.missing_ns == 95


def test_calls_have_no_more_than_the_kernel() -> None:
    # The return from call 1 was missed: more was off a CPU in it than it took.
    counted = Counted(
        mode_ns={"syscall": 30, "user": 10},
        not_running_ns={("syscall", "unknown"): 24},
        absent_ns=0,
        exit_ns=None,
        syscalls={
            1: CountedCalls(total_ns=12, not_running_ns={"unknown": 24}),
            7: CountedCalls(total_ns=18, not_running_ns={}),
        },
    )
    found = account(START_NS, STOP_NS, counted, None)
    assert found.time.kernel_ns == 6
    assert [call.on_cpu_ns for call in found.syscalls.values()] == [0, 6]
    assert [call.unaccounted_ns for call in found.syscalls.values()] == [24, 12]


def test_guest_time_is_not_time_of_its_call() -> None:
    calls = {16: CountedCalls(total_ns=30, not_running_ns={"guest": 20, "ready_woken": 4})}
    counted_ns: dict[tuple[Mode, NotRunning], int] = {
        ("syscall", "guest"): 20,
        ("syscall", "ready_woken"): 4,
    }
    counted = Counted(
        {"syscall": 30, "user": 10}, counted_ns, absent_ns=0, exit_ns=None, syscalls=calls
    )
    found = account(START_NS, STOP_NS, counted, None)
    assert (found.time.guest_ns, found.time.kernel_ns, found.time.user_ns) == (20, 6, 10)
    assert (found.syscalls[16].guest_ns, found.syscalls[16].on_cpu_ns) == (20, 6)
    assert (found.missing_ns, found.calls_fit) == (0, True)


def test_a_kernel_workers_time_is_the_kernels() -> None:
    counted_ns: dict[tuple[Mode, NotRunning], int] = {
        ("worker", "blocked"): 15,
        ("worker", "soft_irq"): 2,
    }
    counted = Counted({"worker": 25}, counted_ns, absent_ns=0, exit_ns=None, syscalls={})
    last = ThreadState("worker", 55, "running", 55, None)
    found = account(START_NS, STOP_NS, counted, last)
    assert (found.time.kernel_ns, found.time.user_ns) == (23, 0)
    assert (found.time.blocked_ns, found.time.soft_irq_ns) == (15, 2)
    assert (found.missing_ns, found.calls_fit) == (0, True)


def test_sleeper_is_frozen_only_from_when_that_is_known() -> None:
    last = ThreadState("user", 10, "blocked", 20, None, blocked_until_ns=40, frozen_since_ns=55)
    time = account(START_NS, STOP_NS, NOTHING_COUNTED, last).time
    assert (time.blocked_ns, time.unaccounted_ns, time.frozen_ns) == (10, 15, 15)


def test_sleeper_that_may_have_been_frozen_is_unaccounted() -> None:
    never_ns = (1 << 64) - 1
    last = ThreadState("user", 10, "blocked", 50, None, frozen_since_ns=never_ns)
    time = account(START_NS, STOP_NS, NOTHING_COUNTED, last).time
    assert (time.user_ns, time.unaccounted_ns, time.frozen_ns) == (20, 20, 0)
