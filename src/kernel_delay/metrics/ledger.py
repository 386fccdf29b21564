"""Totals of threads into figures of classes that only ever grow.

A thread's totals are of all its life, and it may have another name or have ended the next time; so
what it gained since the last time is what its class gets, whatever that is then.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping

from msgspec import Struct

from kernel_delay.analysis.percentiles import added
from kernel_delay.formatting import printable
from kernel_delay.metrics import CallFigures, ClassFigures, Lengths
from kernel_delay.model import (
    CallTotals,
    Histogram,
    Losses,
    Sample,
    Thread,
    ThreadTime,
    ThreadTotals,
)

OTHER = "other"
MAIN = "main"

OVS_CLASSES = ("handler", "revalidator", "pmd", "urcu")
"""Of Open vSwitch's threads; lib/ovs-thread.c and lib/dpif-netdev.c name them, a number behind."""

MOST_CLASSES = 6
"""With the main thread's and what is left: with the rest up to 332 series, 13 of losses, and 5 of a
PMD thread."""

# As of pmd-c03/id:12, the number of a core and an id.
_PMD = re.compile(r"pmd-c\d+/id:\d*$")
_NUMBER = re.compile(r"[^A-Za-z]*\d+$")


def base_name(name: str) -> str:
    """Return a thread's name, safe to print, without the number at its end and what leads to it."""
    # Here, where names that print alike become one class: a label must not be there twice.
    name = printable(name)
    if _PMD.match(name):
        return "pmd"
    return _NUMBER.sub("", name) or OTHER


class ThreadClasses:
    """The classes of one program's threads: the first names that are seen, and no more."""

    def __init__(self, *, is_open_vswitch: bool) -> None:
        """Know Open vSwitch's own from the beginning; it has no others."""
        self._names = {MAIN, OTHER, *(OVS_CLASSES if is_open_vswitch else ())}
        self._is_fixed = is_open_vswitch

    def learn(self, names: Iterable[str]) -> None:
        """Have classes of these threads, of those that there are most of, while there is room."""
        if self._is_fixed:
            return
        counted = Counter(base_name(name) for name in names)
        for name, _ in counted.most_common():
            if len(self._names) >= MOST_CLASSES:
                return
            self._names.add(name)

    def of(self, name: str, *, is_main: bool) -> str:
        """Return the class of a thread of that name."""
        if is_main:
            return MAIN
        found = base_name(name)
        # Any thread may be called as the first one's class.
        return found if found in self._names and found != MAIN else OTHER


STATES = {
    "user": "user_ns",
    "kernel": "kernel_ns",
    "guest": "guest_ns",
    "hard_irq": "hard_irq_ns",
    "soft_irq": "soft_irq_ns",
    "runnable": "ready_ns",
    "blocked": "blocked_ns",
    "stopped": "stopped_ns",
    "throttled": "throttled_ns",
    "frozen": "frozen_ns",
    "unaccounted": "unaccounted_ns",
}
"""The states of a thread, as exported, and what each is of a ThreadTime."""

MOST_CALLS = 14
"""System calls that have a name of their own; the time of others is in one sum."""

MOST_WAITS = 24
"""Classes with what they waited for; what comes later is in one sum."""

# A call gets one when it has so much of the time of all since they were read last.
NAMED_SHARE = 0.001


class _Reported(Struct):
    """What a thread's class was given of it."""

    thread_class: str
    state_ns: dict[str, int]
    waits: Lengths
    rounds: Lengths


def gains(given_ns: Mapping[str, int], now_ns: Mapping[str, int]) -> dict[str, int]:
    """Return what each state is to get more, so that all together have what there is now.

    Time may turn out to have been of another state than was said. What was given is not taken
    back: it counts for what the state gets next, and until then the others have less, first of
    all the one that gained most.
    """
    more = {
        state: now_ns.get(state, 0) - given_ns.get(state, 0) for state in {**given_ns, **now_ns}
    }
    over = -sum(ns for ns in more.values() if ns < 0)
    found = {state: ns for state, ns in more.items() if ns > 0}
    for state in sorted(found, key=lambda state: -found[state]):
        less = min(over, found[state])
        found[state] -= less
        over -= less
    return found


class Ledger:
    """The figures of all threads of a program, from one process of it to the next."""

    def __init__(self, classes: ThreadClasses) -> None:
        """Have none yet."""
        self._classes = classes
        self._of_classes: dict[str, ClassFigures] = {}
        self._threads: dict[int, _Reported] = {}
        self._calls: dict[str, CallFigures] = {}
        self._reported_calls: dict[str, CallTotals] = {}
        self._waits_ns: Counter[tuple[str, str]] = Counter()
        self._roots_ns: Counter[str] = Counter()
        self._losses_before = self._losses = Losses()
        self._lost_threads = 0

    def add_ended(self, pid: int, threads: Iterable[ThreadTotals]) -> None:
        """Add what threads of a process reported at their ends."""
        for thread in threads:
            self._classes.learn([thread.name] if thread.tid != pid else [])
            self._add(pid, thread)
            del self._threads[thread.identity]

    def add_living(self, pid: int, threads: Mapping[int, ThreadTotals | None]) -> None:
        """Add what all living threads of a process report, by their identities."""
        reported = [thread for thread in threads.values() if thread is not None]
        self._classes.learn(thread.name for thread in reported if thread.tid != pid)
        for name, figures in self._of_classes.items():
            self._of_classes[name] = _with_threads(figures, 0)
        for thread in reported:
            self._add(pid, thread)
        known = [self._threads[identity] for identity in threads if identity in self._threads]
        for name, count in Counter(each.thread_class for each in known).items():
            self._of_classes[name] = _with_threads(self._of_classes[name], count)

    def forget_all_but(self, living: Container[int]) -> None:
        """Count as lost those that are not there any more, and have not reported their ends."""
        for identity in [each for each in self._threads if each not in living]:
            del self._threads[identity]
            self._lost_threads += 1

    def _add(self, pid: int, thread: ThreadTotals) -> None:
        """Add what is new of a thread to its class."""
        name = self._classes.of(thread.name, is_main=thread.tid == pid)
        before = self._threads.get(thread.identity) or _Reported(name, {}, Lengths(), Lengths())
        given = dict(before.state_ns)
        gained = gains(given, _state_ns(thread.time))
        for state, ns in gained.items():
            given[state] = given.get(state, 0) + ns
        waits, rounds = (
            Lengths(thread.waits, thread.waits_ns),
            Lengths(thread.rounds, thread.rounds_ns),
        )
        figures = self._of_classes.get(name) or ClassFigures(state_ns=dict.fromkeys(STATES, 0))
        self._of_classes[name] = ClassFigures(
            threads=figures.threads,
            state_ns={state: ns + gained.get(state, 0) for state, ns in figures.state_ns.items()},
            rounds=figures.rounds + _since(rounds, before.rounds),
            waits=figures.waits + _since(waits, before.waits),
        )
        self._threads[thread.identity] = _Reported(name, given, waits, rounds)

    def add_calls(self, calls: Iterable[CallTotals]) -> None:
        """Add what all calls of the process were by now; those that take most get names."""
        reported = {call.name: call for call in calls}
        new = {name: _more(call, self._reported_calls.get(name)) for name, call in reported.items()}
        self._reported_calls = reported
        whole_ns = sum(call.total_ns for call in new.values())
        for name in sorted(new, key=lambda name: -new[name].total_ns):
            is_large = new[name].total_ns > NAMED_SHARE * whole_ns
            if name not in self._calls and is_large and self._named() < MOST_CALLS:
                self._calls[name] = CallFigures()
        for name, call in new.items():
            of = name if name in self._calls else OTHER
            known = self._calls.get(of, CallFigures())
            self._calls[of] = CallFigures(known.count + call.count, known.total_ns + call.total_ns)

    def add_round(self, pid: int, sample: Sample) -> None:
        """Add what the thread of a long round waited for, and who was at the end of that."""
        for thread in sample.threads:
            self._add_waits(self._classes.of(thread.name, is_main=thread.tid == pid), thread)

    def _add_waits(self, name: str, thread: Thread) -> None:
        for sleep in thread.sleeps:
            key = name, str(sleep.reason)
            if key not in self._waits_ns and len(self._waits_ns) >= MOST_WAITS:
                key = OTHER, OTHER
            self._waits_ns[key] += sleep.ns
        for part in thread.chain.parts if thread.chain else ():
            self._roots_ns[part.state] += part.ns

    def _named(self) -> int:
        return sum(name != OTHER for name in self._calls)

    def set_losses(self, losses: Losses) -> None:
        """Have what is not known of the process by now."""
        self._losses = losses

    def end_process(self, *, has_exited: bool) -> None:
        """Have done with a process; if it is gone, threads that did not report that are lost."""
        if has_exited:
            self._lost_threads += len(self._threads)
        self._threads.clear()
        self._reported_calls = {}
        self._losses_before, self._losses = self.losses, Losses()
        self._lost_threads = 0
        for name, figures in self._of_classes.items():
            self._of_classes[name] = _with_threads(figures, 0)

    @property
    def unfinished(self) -> int:
        """How many threads there are that have not reported their ends."""
        return len(self._threads)

    @property
    def losses(self) -> Losses:
        """What is not known of all processes."""
        before, now = self._losses_before, self._losses
        return Losses(
            missed_events=before.missed_events + now.missed_events,
            dropped_records=before.dropped_records + now.dropped_records,
            missed_rounds=before.missed_rounds + now.missed_rounds,
            # Of those that found no room some were known before, and some not.
            missed_ends=before.missed_ends + max(now.missed_ends, self._lost_threads),
        )

    @property
    def classes(self) -> dict[str, ClassFigures]:
        """The figures by class."""
        return dict(self._of_classes)

    @property
    def calls(self) -> dict[str, CallFigures]:
        """The figures by system call."""
        return dict(self._calls)

    @property
    def waits_ns(self) -> dict[tuple[str, str], int]:
        """How long threads waited in long rounds, by their class and for what."""
        return dict(self._waits_ns)

    @property
    def roots_ns(self) -> dict[str, int]:
        """The same by what the thread at the end of the wait's chain did."""
        return dict(self._roots_ns)


def _with_threads(figures: ClassFigures, threads: int) -> ClassFigures:
    return ClassFigures(threads, figures.state_ns, figures.rounds, figures.waits)


def _state_ns(time: ThreadTime) -> dict[str, int]:
    return {state: getattr(time, field) for state, field in STATES.items()}


def _since(now: Lengths, before: Lengths) -> Lengths:
    negative: Histogram = tuple(-count for count in before.counts)
    return Lengths(added(now.counts, negative), now.total_ns - before.total_ns)


def _more(now: CallTotals, before: CallTotals | None) -> CallTotals:
    if before is None:
        return now
    return CallTotals(now.name, now.count - before.count, now.total_ns - before.total_ns)
