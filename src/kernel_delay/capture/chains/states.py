"""The slices of each followed thread, from the events of its switches and wake-ups."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kernel_delay.capture.chains._chain_records import lib
from kernel_delay.capture.chains.slices import (
    Place,
    Was,
    fewest,
    is_for_any_child,
    is_for_others,
    merged,
)
from kernel_delay.host.syscalls import syscall_name
from kernel_delay.loader._records import lib as session
from kernel_delay.model import ChainState, SleepReason, WakerKind

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

STATES: dict[int, ChainState] = {
    session.STATE_RUNNING: "running",
    session.STATE_READY_WOKEN: "runnable",
    session.STATE_READY_PREEMPTED: "runnable",
    session.STATE_THROTTLED: "throttled",
    session.STATE_STOPPED: "stopped",
    session.STATE_FROZEN: "frozen",
    session.STATE_BLOCKED: "blocked",
}

# It waits for a CPU.
IN_LINE: tuple[ChainState, ...] = ("runnable", "throttled")

WAKERS: dict[int, WakerKind] = {
    session.WAKER_THREAD: "thread",
    session.WAKER_HARD_IRQ: "hard_irq",
    session.WAKER_SOFT_IRQ: "soft_irq",
}

# What no file's other end says: polls of several files, and what a process has or serves.
LOOKED_AT: frozenset[SleepReason] = frozenset(("poll", "epoll", "file_lock", "fuse", "child"))

# So long after the event that says so a thread has left its CPU, even a virtual one that halts.
LEAVES_NS = 10_000_000

# So long a wait for a CPU is taken for that of the task that had it at both ends. Longer ones are
# sampled meanwhile.
TAKER_NS = 100_000_000

# And so long a wait for that of the one that had it last: kernel/sched/fair.c, 6.6, base_slice_ns.
SLICE_NS = 3_000_000

# Whoever polls again after so much computing has had no work in between.
RESUMES_NS = 1_000_000

# So many times it may have lost its CPU meanwhile.
MOST_TURNS = 8

# Of one thread: with more, those of little time are merged.
MOST_SLICES = 50_000

# Names of one thread: one may count its work in its name.
MOST_NAMES = 16

# Within so much time the order of merged slices is not kept; it doubles where that is not enough.
MERGED_NS = 1_000_000

# Where this is not enough either, the oldest slices are not kept: what was then is not known.
MOST_MERGED_NS = 64_000_000


class ThreadStates:
    """One thread's."""

    def __init__(self, tid: int, process: int, name: str) -> None:
        """Nothing is known of it yet."""
        self.tid, self.process = tid, process
        # The name that it has now, and how long it had which: it may become another program.
        self._name = name
        self._named_ns: dict[str, int] = {}
        self.done: list[Was] = []
        self._state: ChainState = "unknown"
        self._has_ended = False
        self._since_ns = 0
        # How often it had left a CPU by the last event, modulo 2^32.
        self.switches = 0
        self._place: Place | None = None
        self._taker = 0
        # Who had the CPU when it began to wait for one.
        self._first_taker = 0
        self._woke_ns = 0
        self.awaited = 0
        self._is_judged = False

    @property
    def unjudged(self) -> Place | None:
        """Where it sleeps, if who ends that is to be looked for, and was not."""
        if self._state != "blocked" or self._is_judged or self._place is None:
            return None
        return self._place if self._place.reason in LOOKED_AT else None

    def judge(self, awaited: int) -> None:
        """It waits for that process; 0: for several, or not known."""
        self.awaited, self._is_judged = awaited, True

    def lasts_since(self, before_ns: int) -> bool:
        """Whether it does what it does since before that."""
        return self._since_ns < before_ns

    @property
    def place(self) -> Place | None:
        """Where it sleeps, as far as that is known."""
        return self._place

    @property
    def state(self) -> ChainState:
        """What it does now."""
        return self._state

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and nothing is kept of it."""
        return self._has_ended and not self.done

    @property
    def sleeps_somewhere(self) -> bool:
        """Whether it sleeps, and where is not known yet."""
        return self._state == "blocked" and self._place is None

    @property
    def sleeps_for_others(self) -> bool:
        """Whether it sleeps where another thread is to end that."""
        if self._state != "blocked" or self._place is None:
            return False
        return is_for_others(self._place)

    def woke(self, now_ns: int) -> None:
        """It woke a thread that is followed."""
        self._woke_ns = now_ns

    def settle(self, place: Place) -> None:
        """It sleeps there, since before it was followed."""
        self._place = place

    @property
    def name(self) -> str:
        """The name that it had most of the time that is known."""
        return max(self._named_ns, key=self._named_ns.__getitem__, default=self._name)

    def rename(self, name: str) -> None:
        """It has that name, since it got its CPU."""
        self._name = name

    def note(self, event: "ChainEvent", place: Place | None, stopper: int = 0) -> None:
        """Take an event that it has, in their order; `stopper`: who stops it by that, if known.

        Where others between this and the last one were lost, what it did meanwhile is not known.
        """
        state = STATES.get(event.state, "unknown")
        if event.kind == lib.CHAIN_SEEN:
            if self._since_ns and not self._is_behind(event, state):
                # It waits for a CPU still: who has that now stands for the time since it was seen.
                if self._state == state == "runnable":
                    self._got_cpu(event)
                    self._taker = self._first_taker = event.waker
                return
            self._since_ns = event.now_ns
        elif event.kind == lib.CHAIN_WOKEN:
            # One that is about to sleep, or stands in line already, goes on.
            if self._state in (*IN_LINE, "running"):
                return
            if self._has_lost(event):
                self._since_ns = event.now_ns
            if event.was_frozen and self._state == "blocked":
                # Since when it was, and slept no more, no event says.
                self._state = "unknown"
            by_child = event.ended_child > 0
            if by_child and self._place is not None and self._place.reason == "signal":
                # SIGCHLD was waited for, or has a handler.
                self._place = replace(self._place, reason="child")
            kind = "thread" if self._is_end(event) else WAKERS.get(event.waker_kind, "unknown")
            self._end(event.now_ns, event.waker, event.waker_process, kind, by_child=by_child)
        elif self._has_lost(event):
            self._since_ns = event.now_ns
        elif event.kind == lib.CHAIN_GOT_CPU:
            self._got_cpu(event)
        else:
            self._end(event.now_ns)
        self._state, self._place = state, place
        self.switches = event.switches
        self.awaited, self._is_judged = self._awaited_still(), False
        goes_on = event.kind in (lib.CHAIN_LEFT_CPU, lib.CHAIN_SEEN)
        self._taker = stopper or (event.waker if goes_on else 0)
        self._first_taker = event.waker if goes_on else event.running
        self._has_ended = event.state == session.STATE_NOT_ALIVE

    def _is_end(self, event: "ChainEvent") -> bool:
        """Whether a child that it waits for, or any, ends its wait, also by a signal."""
        place = self._place
        if not event.ended_child or place is None or place.reason != "child":
            return False
        if place.syscall < 0:
            # Before 5.15 no event has the call: most wait for any child, or have one.
            return True
        is_named = syscall_name(place.syscall) == "wait4" and place.fd == event.ended_child
        return is_named or is_for_any_child(place)

    def _has_lost(self, event: "ChainEvent") -> bool:
        """Whether there were others since the last event.

        A thread leaves a CPU that it got, and gets one after it was woken. No count of the ring has
        all that are missing: a tracepoint can miss hits while other programs are attached to it.
        """
        if event.kind == lib.CHAIN_LEFT_CPU:
            is_next = self._state in ("running", "unknown")
            return not is_next or event.switches != (self.switches + 1) & 0xFFFFFFFF
        is_woken = event.kind == lib.CHAIN_WOKEN or self._state != "blocked"
        return not is_woken or event.switches != self.switches

    def _is_behind(self, event: "ChainEvent", state: ChainState) -> bool:
        """Whether events that led to the state that it was seen in were lost."""
        if event.switches != self.switches:
            return True
        if state == "running":
            # It may be about to leave its CPU, with the event of that written before this one.
            return self._state != "running" and event.now_ns - self._since_ns > LEAVES_NS
        # Who waits in line may be throttled there, without an event.
        return state in IN_LINE and self._state not in (*IN_LINE, "running")

    def until(self, stop_ns: int) -> list[Was]:
        """Return what is known up to then, with what it does still."""
        return [*self.done, *self.goes_on(stop_ns)]

    def goes_on(self, stop_ns: int) -> Iterator[Was]:
        """Yield what it does still, up to then, if that is known."""
        if self._since_ns and self._since_ns < stop_ns:
            yield Was(
                self._since_ns,
                stop_ns,
                self._state,
                self._place,
                self._taker,
                awaited=self.awaited,
                lasts=True,
            )

    def _within(self, since_ns: int, until_ns: int) -> Iterator[Was]:
        """Yield what it did in that time, the last first."""
        first = bisect_left(self.done, until_ns, key=_since_ns)
        done = (self.done[at] for at in reversed(range(first)))
        for was in chain(self.goes_on(until_ns), done):
            if was.until_ns <= since_ns:
                return
            yield was

    def slept_at(self, fits: Callable[[Place], bool], since_ns: int, until_ns: int) -> bool:
        """Whether all that is known of that time is that it slept at places that fit."""
        is_known = False
        for was in self._within(since_ns, until_ns):
            if was.state != "blocked" or was.place is None or not fits(was.place):
                return False
            is_known = True
        return is_known

    def ended_at(self, fits: Callable[[Place], bool], until_ns: int) -> bool:
        """Whether it slept at a place that fits when that time was over."""
        was = next(self._within(0, until_ns), None)
        return was is not None and was.place is not None and fits(was.place)

    def ran_ns(self, since_ns: int, until_ns: int) -> int:
        """Return how long of that time it had a CPU or wanted one."""
        return sum(
            min(was.until_ns, until_ns) - max(was.since_ns, since_ns)
            for was in self._within(since_ns, until_ns)
            if was.state in (*IN_LINE, "running")
        )

    def drop(self, before_ns: int) -> None:
        """Keep no more of what was over by then."""
        if len(self._named_ns) > MOST_NAMES:
            self._named_ns.clear()
        self.done = [each for each in self.done if each.until_ns > before_ns]

    def _awaited_still(self) -> int:
        """The process that it waits for as it did before: a time-out alone ended that; else 0."""
        if self._state != "blocked" or self._place is None or self._place.reason not in LOOKED_AT:
            return 0
        ran_ns = 0
        for was in reversed(self.done[-MOST_TURNS:]):
            if was.state == "blocked":
                is_same = was.place == self._place and was.waker_kind == "hard_irq"
                return was.awaited if is_same and ran_ns <= RESUMES_NS else 0
            if was.state == "running":
                ran_ns += was.until_ns - was.since_ns
                if was.woke:
                    return 0
        return 0

    def _got_cpu(self, event: "ChainEvent") -> None:
        """Whoever had the CPU at both ends had it all the time, unless that was long."""
        length_ns = event.now_ns - self._since_ns
        is_same = event.waker == self._first_taker and length_ns <= TAKER_NS
        self._end(event.now_ns, event.waker if is_same or length_ns <= SLICE_NS else 0)

    def _end(
        self,
        now_ns: int,
        waker: int = 0,
        process: int = 0,
        kind: WakerKind = "unknown",
        *,
        by_child: bool = False,
    ) -> None:
        if self._since_ns and self._since_ns < now_ns:
            length_ns = now_ns - self._since_ns
            self._named_ns[self._name] = self._named_ns.get(self._name, 0) + length_ns
            if self._state == "stopped":
                waker, process, kind = self._taker, 0, "unknown"
            was = Was(
                self._since_ns,
                now_ns,
                self._state,
                self._place,
                waker,
                process,
                kind,
                self.awaited,
                woke=self._state == "running" and self._woke_ns >= self._since_ns,
                by_child=by_child,
            )
            self.done.append(was)
            if len(self.done) > MOST_SLICES:
                self._make_room()
        self._since_ns = now_ns

    def _make_room(self) -> None:
        """Keep half as many slices at most."""
        most, within_ns = MOST_SLICES // 2, MERGED_NS
        is_worth_it = fewest(self.done) <= most
        while is_worth_it and len(self.done) > most and within_ns <= MOST_MERGED_NS:
            self.done = merged(self.done, within_ns)
            within_ns *= 2
        del self.done[:-most]


def _since_ns(was: Was) -> int:
    return was.since_ns
