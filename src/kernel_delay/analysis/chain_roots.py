"""The waits of a thread, split by what the roots of its wait chains did: disjoint parts."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.model import POLL_REASONS, ChainGap, ChainState, SleepReason

MOST_HOPS = 6
"""Whom the sixth waits for is not looked for."""

MOST_STEPS = 200_000
"""Slices that are looked at for one thread: what is left then is not known."""

# What a thread waits for that no other thread does for it.
ROOT_REASONS: frozenset[SleepReason] = frozenset(
    (
        *("clock", "disk", "page_cache", "network_filesystem", "swap", "reclaim", "rcu"),
        *("frozen_filesystem", "core_dump", "signal", "terminal"),
    )
)


WORKS: frozenset[ChainState] = frozenset(("running", "runnable", "blocked"))
"""What a thread does, or wants to do, for whomever it serves."""


class StateSlice(Struct, frozen=True, gc=False):
    """What a thread did for a while.

    Attributes:
        since_ns: When it began, by the clock of the window.
        until_ns: When it ended.
        state: What it did.
        reason: What it slept for, if it was blocked.
        waker: Who ended a sleep, or surely will, or had the CPU that it wanted, or stopped it: a
            thread ID. 0: not known.
        device: The device whose file it slept for, as the kernel numbers it. 0: not known.
        syscall: The number of the call that it slept in. Negative: not known.
        gap: Why the waker is not known, or why it stands for its process: "threads", "ran". With
            "interrupt" it stands for the process at the other end, which did not end the sleep.
        ended_ns: When the waker ended the sleep, also of a part of it. 0: it lasts.
        by_client: Whether the waker's process is a client of the sleeper's.
        is_idle: Whether it waits for a request of that.
        writes_to_terminal: Whether it waits until its terminal is read.
    """

    since_ns: int
    until_ns: int
    state: ChainState
    reason: SleepReason | None = None
    waker: int = 0
    device: int = 0
    syscall: int = -1
    gap: ChainGap | None = None
    ended_ns: int = 0
    by_client: bool = False
    is_idle: bool = False
    writes_to_terminal: bool = False


class Root(Struct, frozen=True):
    """Which threads were waited for, one for the other, and what the last did.

    Attributes:
        tids: The threads, from the one that was waited for first. Empty: none.
        state: What the last did.
        reason: What it slept for.
        taker: Who had its CPU, if it was runnable, or stopped it: a thread ID. 0: not known.
        device: The device whose file it slept for. 0: not known.
        syscall: The number of the call that the last slept in, if it is not known for whom.
            Negative: not known.
        gap: Why that is not known.
        is_idle: Whether the first is waited for to send a request.
    """

    tids: tuple[int, ...]
    state: ChainState
    reason: SleepReason | None = None
    taker: int = 0
    device: int = 0
    syscall: int = -1
    gap: ChainGap | None = None
    is_idle: bool = False


SlicesOf = Callable[[int], Sequence[StateSlice]]


def roots(tid: int, slices_of: SlicesOf, start_ns: int, stop_ns: int) -> Counter[Root]:
    """Return how long each root made a thread wait, in ns: the sum is all that it was blocked.

    Args:
        tid: The thread.
        slices_of: Called with a thread's number: its slices, sorted and disjoint.
        start_ns: Where the window begins.
        stop_ns: Where it ends.
    """
    return _Walk(slices_of).waits(tid, start_ns, stop_ns)


class _Walk:
    """The way from one thread to its roots."""

    def __init__(self, slices_of: SlicesOf) -> None:
        self._slices_of = slices_of
        self._steps = 0

    def waits(self, tid: int, start_ns: int, stop_ns: int) -> Counter[Root]:
        found: Counter[Root] = Counter()
        for each in self._within(tid, start_ns, stop_ns):
            if each.state == "blocked":
                for root, ns in self._of_sleep(each, (), tid).items():
                    # What a time-out ended is for nobody.
                    is_idle = each.is_idle and bool(root.tids)
                    found[replace(root, is_idle=True) if is_idle else root] += ns
        return found

    def _of_sleep(self, each: StateSlice, tids: tuple[int, ...], first: int) -> Counter[Root]:
        """Split a sleep of the last of `tids`, or of the `first` thread."""
        length_ns = each.until_ns - each.since_ns
        if each.reason in ROOT_REASONS and not (each.writes_to_terminal and each.waker):
            return Counter({Root(tids, "blocked", each.reason, device=each.device): length_ns})
        is_known = each.waker > 0 and each.gap != "interrupt"
        is_circle = each.waker == first or each.waker in tids
        is_end = is_circle or len(tids) >= MOST_HOPS
        further = (*tids, each.waker)
        if not is_known or is_end:
            root = Root(tids, "unknown", each.reason)
            if tids:
                gap: ChainGap | None = "circle" if is_circle else "hops"
                if is_circle and each.gap == "threads":
                    # It stands for its process, of which another thread is waited for.
                    gap = None
                gap = gap if is_known else each.gap
                root = replace(root, syscall=each.syscall, gap=gap)
            if each.waker and not is_end:
                return self._of_process(each, further, root)
            return Counter({root: length_ns})
        if each.gap in ("threads", "ran"):
            return self._of_process(each, further, Root(further, "unknown", gap=each.gap))
        found: Counter[Root] = Counter()
        left_ns = length_ns
        for other in self._served(each, (first, *tids)):
            left_ns -= other.until_ns - other.since_ns
            if other.state == "blocked":
                found.update(self._of_sleep(other, further, first))
            else:
                root = Root(further, other.state, taker=other.waker, gap=other.gap)
                found[root] += other.until_ns - other.since_ns
        if left_ns:
            found[Root(further, "unknown", gap="not_followed")] += left_ns
        return found

    def _served(self, each: StateSlice, sleepers: tuple[int, ...]) -> Iterator[StateSlice]:
        """Yield what the waker did in a sleep; its polls end by whom it could go on from.

        A thread that polls may serve several: of its polls the ones that others end, who have no
        part in this sleep, go on until the one behind which it woke the sleeper. What it did for
        a client that is none of the `sleepers` is not known to be for them.
        """
        answers: list[tuple[int, StateSlice]] | None = None
        did = [*self._within(each.waker, each.since_ns, each.until_ns)]
        served = _served(did, sleepers)
        serves = False
        for at, other in enumerate(did):
            is_poll = _is_poll(other)
            serves = at in served if is_poll else serves
            if is_poll and other.ended_ns:
                if not each.ended_ns:
                    # Whom it served is not known as long as it has woken nobody.
                    yield _for_others(other)
                    continue
                if answers is None:
                    answers = [*self._answers(each, frozenset(served.values()))]
                yield _for_answer(other, answers)
            elif serves and other.state in WORKS:
                yield replace(other, state="unknown", reason=None, waker=0, gap="serves")
            else:
                yield other

    def _answers(
        self, each: StateSlice, served: frozenset[int]
    ) -> Iterator[tuple[int, StateSlice]]:
        """Yield the polls that the waker of a sleep could go on from, the last first.

        Each with the time from which on it was waited for: the waker woke whoever ended it. Before
        that it waited for something else. Of a timer that is not known before its poll, nor of a
        client that it `served` before without waking the sleeper.
        """
        until_ns = each.ended_ns
        while until_ns > each.since_ns:
            answer = self._last(each.waker, each.since_ns, until_ns, _is_ended_poll)
            if answer is None:
                return
            if answer.waker in served:
                answer = replace(answer, waker=0, gap="serves")
            if not answer.waker or answer.gap == "interrupt":
                yield answer.since_ns, answer
                return
            asked = self._last(
                answer.waker,
                each.since_ns,
                answer.ended_ns - 1,
                lambda other: other.state == "blocked" and other.waker == each.waker,
            )
            until_ns = asked.until_ns if asked is not None else each.since_ns
            yield until_ns, answer

    def _last(
        self, tid: int, after_ns: int, until_ns: int, fits: Callable[[StateSlice], bool]
    ) -> StateSlice | None:
        """Return the last slice of a thread that fits and ended in that time."""
        slices = self._slices_of(tid)
        at = bisect_right(slices, until_ns, key=lambda each: each.until_ns)
        while at and slices[at - 1].until_ns > after_ns and self._steps < MOST_STEPS:
            self._steps += 1
            at -= 1
            if fits(slices[at]):
                return slices[at]
        return None

    def _of_process(self, each: StateSlice, further: tuple[int, ...], rest: Root) -> Counter[Root]:
        """Split a sleep that any thread of a process may end: they are held together."""
        found: Counter[Root] = Counter()
        left_ns = each.until_ns - each.since_ns
        for other in self._within(each.waker, each.since_ns, each.until_ns):
            if other.state in ("stopped", "frozen"):
                root = Root(further, other.state, taker=other.waker)
                found[root] += other.until_ns - other.since_ns
                left_ns -= other.until_ns - other.since_ns
        if left_ns:
            found[rest] += left_ns
        return found

    def _within(self, tid: int, start_ns: int, stop_ns: int) -> Iterator[StateSlice]:
        """Yield the slices of a thread, cut to the interval."""
        slices = self._slices_of(tid)
        at = bisect_right(slices, start_ns, key=lambda each: each.until_ns)
        while at < len(slices) and slices[at].since_ns < stop_ns and self._steps < MOST_STEPS:
            self._steps += 1
            each = slices[at]
            since_ns, until_ns = max(each.since_ns, start_ns), min(each.until_ns, stop_ns)
            if since_ns < until_ns:
                is_whole = since_ns == each.since_ns and until_ns == each.until_ns
                yield each if is_whole else replace(each, since_ns=since_ns, until_ns=until_ns)
            at += 1


def _is_poll(each: StateSlice) -> bool:
    return each.state == "blocked" and each.reason in POLL_REASONS


def _is_ended_poll(each: StateSlice) -> bool:
    return _is_poll(each) and each.ended_ns > 0


def _served(did: Sequence[StateSlice], sleepers: Collection[int]) -> dict[int, int]:
    """Return which polls in a sleep led to nothing for the sleepers, and the clients behind them.

    Whoever polls again has done what there was to do: a request of another client.
    """
    polls = [at for at, each in enumerate(did) if _is_poll(each)]
    return {
        at: did[at].waker
        for at in polls[:-1]
        if did[at].by_client and did[at].waker not in sleepers
    }


def _for_answer(poll: StateSlice, answers: Sequence[tuple[int, StateSlice]]) -> StateSlice:
    """A poll that waited for the answer behind it, or one of which that is not known."""
    for asked_ns, answer in answers:
        if asked_ns < poll.ended_ns <= answer.ended_ns:
            return replace(poll, waker=answer.waker, gap=answer.gap)
    return _for_others(poll)


def _for_others(poll: StateSlice) -> StateSlice:
    """A poll that is not known to be for the sleeper; only a client is known to be another one."""
    if not poll.waker or poll.gap == "interrupt":
        return poll
    return replace(poll, waker=0, gap="serves" if poll.by_client else "for_whom")
