"""What there is to compare of long rounds: the figures of each class of threads, round by round.

A class is as in figures.py. Its figures:

    round.mean                    how long a round is
    user, kernel, irq, ready …    shares of the rounds' time
    user.round, ready.round …     how much of it a round has
    CALL.round, CALL.count        how much of a round a system call has, and how many there are
    CALL.mean                     how long one takes
    faults.round, faults.count    the same of page faults
    blocked/REASON.round          how much of a round it slept for that
    ready/NAME.round              how much of a round that had the CPU while it waited for one
    lock/NAME.round               how much of a round it waited for a lock of that
    cause/WORD                    the share of the rounds that this made long
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kernel_delay.analysis.figures import (
    LEAST_COUNT,
    Blocks,
    Figure,
    Unmeasured,
    class_of,
    unmeasured,
)
from kernel_delay.analysis.rounds import cause_name
from kernel_delay.analysis.spread import proportion, ratio
from kernel_delay.analysis.states import STATES, states
from kernel_delay.host.kernel_names import POLLS
from kernel_delay.model import Sample, SyscallStats, Thread

LENGTH = "round.mean"

_CAUSE = "cause/"


class RoundBlock:
    """What was counted of one round, or of several that are taken together."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.rounds = 0
        self.ns = 0
        self.parts_ns: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()

    def add(self, sample: Sample) -> None:
        """Count a round."""
        self.rounds += 1
        self.ns += sample.window.duration_ns
        self.causes[cause_name(sample)] += 1
        for part in _parts(sample.threads[0]):
            self.parts_ns[part.name] += part.ns
            self.counts[part.name] += part.count

    def merge(self, other: "RoundBlock") -> None:
        """Take what another counted."""
        self.rounds += other.rounds
        self.ns += other.ns
        self.parts_ns.update(other.parts_ns)
        self.counts.update(other.counts)
        self.causes.update(other.causes)


class RoundFigures:
    """Takes Samples of rounds one by one; knows their figures at any time."""

    def __init__(self) -> None:
        """Start before the first round."""
        self.samples = 0
        self.window_ns = 0
        self.unmeasured: Counter[Unmeasured] = Counter()
        self._classes: dict[str, Blocks[RoundBlock]] = {}

    def add(self, sample: Sample) -> None:
        """Count a round."""
        self.unmeasured.update(unmeasured(sample))
        self.samples += 1
        self.window_ns += sample.window.duration_ns
        threads = class_of(sample.threads[0].name)
        self._classes.setdefault(threads, Blocks(RoundBlock)).following().add(sample)

    def rounds(self) -> dict[str, int]:
        """How many rounds there were of each class."""
        return {
            name: sum(block.rounds for block in blocks.all)
            for name, blocks in self._classes.items()
        }

    def names(self, threads: str) -> set[str]:
        """What a class has figures of."""
        found = {LENGTH}
        for block in self._classes[threads].all:
            found |= {f"{_CAUSE}{cause}" for cause in block.causes}
            found |= {state for state in STATES if block.parts_ns[state]}
            found |= {f"{part}.round" for part, ns in block.parts_ns.items() if ns}
            counted = {part for part, count in block.counts.items() if count}
            found |= {f"{part}.{what}" for part in counted for what in ("count", "mean")}
        return found

    def figure(self, threads: str, name: str) -> Figure | None:
        """A figure of a class; None where there is nothing that it could be of.

        `weight` is what share of a round a change of it by 1 is of.
        """
        blocks = self._classes[threads].all
        part, _, what = name.rpartition(".")
        if name == LENGTH:
            return _round(blocks, [block.ns for block in blocks])
        if what == "round":
            return _round(blocks, [block.parts_ns[part] for block in blocks])
        if what in ("count", "mean"):
            return _of_count(blocks, part, what)
        return _share(blocks, name)


def needs(name: str) -> Unmeasured | None:
    """What a round must have measured for a figure; None: it always has the figure."""
    part, _, what = name.rpartition(".")
    is_always = name == LENGTH or "/" in part or part in STATES or part in POLLS
    if what not in ("round", "count", "mean") or is_always:
        return None
    return "page_faults" if part == "faults" else "calls"


class _Part(Struct, frozen=True):
    """What a round had of something, and how often; 0 where that is not counted."""

    name: str
    ns: int
    count: int = 0


def _round(blocks: Sequence[RoundBlock], ns: Sequence[int]) -> Figure | None:
    each = ratio(ns, [block.rounds for block in blocks])
    return None if each is None else Figure("ns", each, 1 / _mean_ns(blocks), idle=False)


def _of_count(blocks: Sequence[RoundBlock], part: str, what: str) -> Figure | None:
    """How many there were in a round, or how long one took."""
    ns = [block.parts_ns[part] for block in blocks]
    counts = [block.counts[part] for block in blocks]
    count, rounds = sum(counts), sum(block.rounds for block in blocks)
    if what == "count":
        each = ratio(counts, [block.rounds for block in blocks])
        weight = sum(ns) / max(1, count) / _mean_ns(blocks)
        return None if each is None else Figure("count", each, weight, idle=False, count=count)
    mean = ratio(ns, counts)
    if mean is None or count < LEAST_COUNT:
        return None
    return Figure("ns", mean, count / rounds / _mean_ns(blocks), idle=False, count=count)


def _share(blocks: Sequence[RoundBlock], name: str) -> Figure | None:
    """Of the rounds' time, or of the rounds themselves."""
    if name.startswith(_CAUSE):
        caused = sum(block.causes[name.removeprefix(_CAUSE)] for block in blocks)
        rounds = sum(block.rounds for block in blocks)
        return Figure("share", proportion(caused, rounds), 1.0, idle=False)
    state = ratio([block.parts_ns[name] for block in blocks], [block.ns for block in blocks])
    return None if state is None else Figure("share", state, 1.0, idle=False)


def _mean_ns(blocks: Sequence[RoundBlock]) -> float:
    return max(1, sum(block.ns for block in blocks)) / sum(block.rounds for block in blocks)


def _parts(thread: Thread) -> Iterator[_Part]:
    """What the thread of a round did in it: its states first, then what these are made of."""
    if thread.time is not None:
        for state, ns in states(thread.time).items():
            yield _Part(state, ns)
    for call in thread.syscalls:
        yield _Part(call.name or f"syscall {call.number}", _call_ns(call), call.count)
    if thread.page_faults is not None:
        faults = thread.page_faults
        yield _Part("faults", faults.on_cpu_ns + faults.blocked_ns, faults.count)
    for sleep in thread.sleeps:
        yield _Part(f"blocked/{sleep.reason}", sleep.ns)
    for taker in thread.cpu_taken_by:
        yield _Part(f"ready/{class_of(taker.comm)}", taker.ns)
    yield _Part("ready/others", thread.cpu_taken_by_others_ns)
    yield _Part("ready/unknown", thread.cpu_taken_by_unknown_ns)
    for wait in thread.lock_waits:
        yield _Part(f"lock/{class_of(wait.name)}", wait.ns)
    yield _Part("lock/others", thread.lock_waits_others_ns)


def _call_ns(call: SyscallStats) -> int:
    """All time in the calls, that in one which the round's end cut short too."""
    if call.on_cpu_ns is None:
        return call.total_ns
    off_cpu = (call.ready_ns, call.blocked_ns, call.stopped_ns)
    return call.on_cpu_ns + sum(ns or 0 for ns in (*off_cpu, call.guest_ns, call.unaccounted_ns))
