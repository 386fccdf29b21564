"""The rule on threads that slept for long where nobody can know whether they had work to do."""

from collections.abc import Iterator, Sequence

from kernel_delay.analysis.verdict.chain_parts import idle_ns
from kernel_delay.analysis.verdict.formatting import (
    length,
    listed,
    lock_advice,
    look_for_place,
    look_for_whom,
    name,
    work_unknown,
)
from kernel_delay.analysis.verdict.kernel_sleep import is_made_to_wait
from kernel_delay.analysis.verdict.lock_chains import known_locks_ns
from kernel_delay.analysis.verdict.rule import ASLEEP_SHARE, Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import WAIT_RULES
from kernel_delay.analysis.verdict.thread_roles import idles_by_design
from kernel_delay.analysis.verdict.wait_files import main_file
from kernel_delay.analysis.verdict.wait_reasons import WAITS
from kernel_delay.analysis.verdict.wakers import (
    last_waker,
    main_waker,
    most_frequent_waker,
    timed_out,
)
from kernel_delay.model import POLL_REASONS, Sample, Sleep, SleepReason, Thread

# Calls that are named.
MOST_CALLS = 3

# A call is named with its time if so much of the sleep was in it.
NAMED_SHARE = 0.05

# A sentence has no room for the times in more calls.
_SAID_AT_ONCE = 2

# Other threads that are named.
MOST_OTHERS = 3

_MAY_BE_IDLE = frozenset(wait.reason for wait in WAITS if wait.remark or wait.in_rounds)
_CLEARER = {rule.reason: rule for rule in WAIT_RULES if rule.remark}


def _sleeps(thread: Thread) -> list[Sleep]:
    """The sleeps that an idle thread has too, longest first."""
    found = [
        sleep for sleep in thread.sleeps if sleep.reason in _MAY_BE_IDLE and is_made_to_wait(sleep)
    ]
    return sorted(found, key=lambda sleep: -sleep.ns) if len(found) > 1 else found


def _asleep_ns(sample: Sample, thread: Thread) -> int:
    if sample.round is not None or idles_by_design(sample, thread):
        return 0
    ns = sum(sleep.ns for sleep in _sleeps(thread)) - known_locks_ns(thread)
    ns -= idle_ns(sample, thread) if thread.chain is not None else 0
    window_ns = sample.window.duration_ns
    if ns < ASLEEP_SHARE * window_ns:
        return 0
    for reason in {sleep.reason for sleep in thread.sleeps}:
        rule = _CLEARER.get(reason)
        if rule and rule.lost_ns(sample, thread) >= rule.least_share * window_ns:
            return 0
    return ns


def waits_for_others(sample: Sample, thread: Thread) -> bool:
    """Return whether so much of its sleep was not until a time that it had chosen itself."""
    ns = sum(sleep.ns for sleep in _sleeps(thread) if sleep.reason != "clock")
    return ns >= ASLEEP_SHARE * sample.window.duration_ns


def slept_long(sample: Sample) -> list[tuple[Thread, int]]:
    """The threads that slept for a third of the window, and how long; the longest first.

    Without the time in which a server had no request.
    """
    least_ns = ASLEEP_SHARE * sample.window.duration_ns
    found = [
        (thread, slept_ns)
        for thread in sample.threads
        if thread.time is not None
        # Those that ended are one of several processes.
        and thread.tid
        and thread.threads == 1
        and (slept_ns := thread.time.blocked_ns - idle_ns(sample, thread)) >= least_ns
    ]
    return sorted(found, key=lambda each: (-each[1], each[0].tid))


def _say_asleep(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    slept = _sleeps(thread)
    # With waits for locks these are no sum.
    parts = _parts(slept) if not thread.lock_waits else {}
    unknown = work_unknown(sample, thread, in_futex=_is_in_futex(slept))
    others = _others(case)
    in_futex = [other for other in case.others if _is_in_futex(_sleeps(other))]
    # What is said of one call that has nearly all of it is not of the others.
    main = next(iter(parts.values())) if len(parts) == 1 else slept
    mostly = " mostly" if len(main) < len(slept) else ""
    where, lengths = f"{mostly}{_where(main)}", ""
    if len(parts) == _SAID_AT_ONCE:
        where = f" {_lengths(parts)}, in all"
    elif len(parts) > 1:
        lengths = f"It slept {_lengths(parts)}."
    # Whoever may have kept it from work, the program chose to sleep there.
    return Statement(
        f"{name(sample, thread)} slept{where}",
        "program",
        {"waits": sum(sleep.count for sleep in slept)},
        (
            *([lengths] if lengths else []),
            *_woken_by_part(case, main, parts),
            *_unserved(parts),
            *unknown,
            *others,
            *_may_lock(in_futex, are_named=bool(others)),
        ),
        lock_advice(sample, thread) or _look_at(sample, thread, slept),
        names_others=bool(others),
        is_wanted=lock_advice(sample, thread) is not None,
    )


def _look_at(sample: Sample, thread: Thread, slept: list[Sleep]) -> str | None:
    """What may show where the main thread sleeps, or whom it polls if no event ended that."""
    if slept[0].reason == "clock":
        return look_for_place(sample, thread)
    if slept[0].reason not in POLL_REASONS:
        return None
    is_ended = any(sleep.wakers or sleep.short_ns for sleep in slept)
    if is_ended and not (timed_out(sample, thread, slept) and main_file(slept)):
        return None
    return look_for_whom(sample, thread)


def _may_lock(in_futex: Sequence[Thread], *, are_named: bool) -> tuple[str, ...]:
    """Say that other threads may have waited for a lock, and how many, if they are not named."""
    if not in_futex:
        return ()
    if are_named:
        return ("A wait in futex may be for a lock.",)
    return (f"{len(in_futex):,} of the other threads slept in futex, maybe for a lock.",)


def _is_in_futex(slept: list[Sleep]) -> bool:
    futex_ns = sum(sleep.ns for sleep in slept if sleep.reason == "futex")
    return 2 * futex_ns > sum(sleep.ns for sleep in slept)


def _where(slept: list[Sleep]) -> str:
    calls = list(dict.fromkeys(sleep.syscall for sleep in slept if sleep.syscall))[:MOST_CALLS]
    return f" in {', '.join(calls)}" if calls else ""


def _parts(slept: list[Sleep]) -> dict[str, list[Sleep]]:
    """The sleeps of each call, the longest first; of few of a call nothing is said.

    A thread that sleeps in several calls waits for several things: a server that waits for
    requests, and sleeps on its own in between.
    """
    of_call: dict[str, list[Sleep]] = {}
    for sleep in slept:
        if sleep.syscall:
            of_call.setdefault(sleep.syscall, []).append(sleep)
    least_ns = NAMED_SHARE * _ns(slept)
    found = sorted(of_call.items(), key=lambda part: -_ns(part[1]))
    return {call: part for call, part in found[:MOST_CALLS] if _ns(part) >= least_ns}


def _ns(slept: list[Sleep]) -> int:
    return sum(sleep.ns for sleep in slept)


def _lengths(parts: dict[str, list[Sleep]]) -> str:
    """How long it slept in each call."""
    return listed([f"in {call} for {length(_ns(part))}" for call, part in parts.items()])


def _unserved(parts: dict[str, list[Sleep]]) -> tuple[str, ...]:
    """Say that a thread which polls served nobody while it slept on its own."""
    clocks = [call for call, part in parts.items() if _are_of(part, ("clock",))]
    if not clocks or not any(_are_of(part, POLL_REASONS) for part in parts.values()):
        return ()
    return (f"While it slept in {clocks[0]}, it handled no events.",)


def _are_of(slept: list[Sleep], reasons: tuple[SleepReason, ...]) -> bool:
    return all(sleep.reason in reasons for sleep in slept)


def _woken_by_part(case: Case, slept: list[Sleep], parts: dict[str, list[Sleep]]) -> Iterator[str]:
    """Who ended most of it; who ended the sleeps in each call, where these differ."""
    once = _woken(case, slept)
    of_part = [_woken(case, part) for part in parts.values()]
    if len(parts) < 2 or all(each == once for each in of_part):
        yield from once
        return
    for call, part in parts.items():
        yield from _woken(case, part, call)


def _others(case: Case) -> tuple[str, ...]:
    """The other threads that slept so, by name if they are few: one may be the one that matters."""
    if not case.others or len(case.others) > MOST_OTHERS:
        return ()
    *first, last = (f"{name(case.sample, other)}{_where(_sleeps(other))}" for other in case.others)
    return (f"Others slept too: {', '.join(first)}{' and ' if first else ''}{last}.",)


def _in_vain(sample: Sample, slept: list[Sleep], where: str) -> str:
    """Say that its calls timed out, and for what it waited."""
    if not _are_of(slept, POLL_REASONS):
        return f"Its waits{where} timed out."
    file = main_file(slept)
    events = file.phrase(sample, slept[0].reason) if file is not None else None
    if file is None or events is None:
        return f"Its polls{where} timed out: no event came."
    return f"Its polls{where} timed out: it waited in vain for {events} (fd {file.file.fd})."


def _woken(case: Case, slept: list[Sleep], call: str = "") -> tuple[str, ...]:
    """Who ended most of it: a thread, or else interrupts, as those of timers and devices.

    And who ended the newest of its waits, if that is another thread. `call`: these are the sleeps
    in that one.
    """
    sample, where = case.sample, f" in {call}" if call else ""
    waker = main_waker(slept)
    if waker is not None:
        time = f"the time{where}" if call else "that time"
        return (waker.text(sample, time), *last_waker(sample, slept, waker.tid, where))
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    if not wakers:
        # Short waits are not looked at: who ended these is not known.
        return () if any(sleep.short_ns for sleep in slept) else (f"Nobody woke it{where}.",)
    kinds = {waker.kind for waker in wakers}
    are_interrupts = kinds <= {"hard_irq", "soft_irq"}
    if are_interrupts and _are_of(slept, ("clock",)):
        return (f"Its own timer woke it{where}.",)
    if are_interrupts and timed_out(sample, case.thread, slept):
        return (_in_vain(sample, slept, where),)
    if kinds == {"hard_irq"}:
        return (f"Timers or devices woke it{where}.",)
    if are_interrupts:
        # Loopback too: the sender's soft IRQ wakes the receiver.
        return (
            f"Soft IRQs woke it{where}: for timers or for packets, also those from this machine.",
        )
    often = most_frequent_waker(sample, slept, where)
    if often is None:
        return ()
    tid, sentence = often
    return (sentence, *last_waker(sample, slept, tid, where))


ASLEEP = Rule(
    name="asleep",
    least_share=ASLEEP_SHARE,
    lost_ns=_asleep_ns,
    say=_say_asleep,
    measures="Sleep that an idle thread has too: polls, futexes, pipes, sockets, timers,"
    " signals. Names who ended the sleep, and the process's title.",
    limits="Does not detect whether the thread had work to do. A wait that still continues"
    " has no waker. Helper threads of a Java VM are left out.",
    remark=True,
    is_clearer=lambda sample, thread: thread.tid == sample.target.pid,
)
