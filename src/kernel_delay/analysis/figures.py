"""What there is to compare of Samples: the figures of each class of threads, sample by sample.

A class is all threads whose names differ in numbers alone: `handler12` and `handler7` are of
`handler*`. Its figures:

    user, kernel, irq, ready …    shares of the time that its threads were there
    CALL.mean, CALL.p99           how long a system call took
    CALL.rate                     how many there were, a second
    ready.mean, ready.p99         how long a wait for a CPU took, once it could run
    run.rate                      how often it got on a CPU, a second
    root/NAME.STATE               how long it waited while the root of its wait chain, a thread of
                                  that name, did that: as a share, with --chains
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Generic, Literal, Protocol, Self, TypeVar

from msgspec import Struct

from kernel_delay.analysis.percentiles import added
from kernel_delay.analysis.spread import Estimate, percentile_of, rate, ratio
from kernel_delay.analysis.states import states
from kernel_delay.formatting import NS_PER_S
from kernel_delay.host.kernel_names import FUTEXES, POLLS, RESTARTS, RING_ENTRY
from kernel_delay.model import Histogram, Sample, Thread

MOST_BLOCKS = 1024
"""More samples than this are taken together, two by two: the memory is bounded."""


class Mergeable(Protocol):
    """What was counted of one sample, or of several that are taken together."""

    def __init__(self) -> None:
        """Start with nothing."""

    def merge(self, other: Self) -> None:
        """Take what another counted."""


B = TypeVar("B", bound=Mergeable)


class Blocks(Generic[B]):
    """A block for each sample; for two, four and so on where there are too many."""

    def __init__(self, kind: type[B]) -> None:
        """Start before the first sample; `kind` makes an empty block."""
        self.all: list[B] = []
        self._kind = kind
        self._samples_per_block = 1
        self._in_last = 0

    def following(self) -> B:
        """Return the block that the next sample is to be counted in."""
        if len(self.all) == MOST_BLOCKS and self._in_last == self._samples_per_block:
            self._halve()
        if not self.all or self._in_last == self._samples_per_block:
            self.all.append(self._kind())
            self._in_last = 0
        self._in_last += 1
        return self.all[-1]

    def _halve(self) -> None:
        for at in range(0, len(self.all) - 1, 2):
            self.all[at].merge(self.all[at + 1])
        self.all = self.all[::2]
        self._samples_per_block *= 2
        self._in_last = self._samples_per_block


LEAST_COUNT = 20
"""Of fewer a mean or a rate is chance."""

ROOT = "root/"
"""How the names of figures of wait chains begin."""

HOLDS = ("throttled", "stopped", "frozen")
"""What holds a thread. Who waits for a root that nothing holds may be waiting for work."""

Unit = Literal["share", "ns", "per_s", "count"]

Unmeasured = Literal["accounts", "calls", "page_faults"]
"""What a sample may lack: where the time went, calls other than polls, page faults."""

_NUMBERS = re.compile(r"\d+")


class Key(Struct, frozen=True, order=True):
    """Which figure of which class of threads."""

    threads: str
    name: str


class Figure(Struct, frozen=True):
    """One figure over all samples.

    `weight` is what share of its class's time a change of it by 1 (a share, a ns, one a second)
    is of. `idle`: it may be waiting for work. `count` is how many there were of what it is of,
    None for a share.
    """

    unit: Unit
    estimate: Estimate
    weight: float
    idle: bool
    count: int | None = None


class Lengths(Struct):
    """What of one kind began and ended within a block of samples."""

    count: int = 0
    total_ns: int = 0
    max_ns: int = 0
    histogram: Histogram = ()

    def add(self, other: "Lengths") -> None:
        """Take what was counted elsewhere."""
        self.count += other.count
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.histogram = added(self.histogram, other.histogram)


class Block:
    """What was counted of one sample, or of several that are taken together."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.window_ns = 0
        self.present_ns: defaultdict[str, int] = defaultdict(int)
        self.states_ns: defaultdict[Key, int] = defaultdict(int)
        self.roots_ns: defaultdict[Key, int] = defaultdict(int)
        self.lengths: defaultdict[Key, Lengths] = defaultdict(Lengths)

    def add(self, sample: Sample) -> None:
        """Count a sample's threads."""
        self.window_ns += sample.window.duration_ns
        for thread in sample.threads:
            threads = class_of(thread.name)
            if thread.time is not None:
                for state, ns in states(thread.time).items():
                    if state != "absent":
                        self.states_ns[Key(threads, state)] += ns
                        self.present_ns[threads] += ns
            for part in thread.chain.parts if thread.chain is not None else ():
                if part.threads:
                    root = f"{ROOT}{class_of(part.threads[-1].name)}.{part.state}"
                    self.roots_ns[Key(threads, root)] += part.ns
            for key, lengths in _lengths(thread, threads):
                self.lengths[key].add(lengths)

    def merge(self, other: "Block") -> None:
        """Take what another counted."""
        self.window_ns += other.window_ns
        for threads, ns in other.present_ns.items():
            self.present_ns[threads] += ns
        for key, ns in other.states_ns.items():
            self.states_ns[key] += ns
        for key, ns in other.roots_ns.items():
            self.roots_ns[key] += ns
        for key, lengths in other.lengths.items():
            self.lengths[key].add(lengths)


def unmeasured(sample: Sample) -> Iterator[Unmeasured]:
    """What a sample lacks: there 0 does not mean that there was none."""
    without_accounts = not any(thread.time for thread in sample.threads)
    if sample.threads and without_accounts:
        yield "accounts"
    if "calls" in sample.unseen:
        yield "calls"
    if without_accounts or {"calls", "page_faults"} & {*sample.unseen}:
        yield "page_faults"


class Figures:
    """Takes Samples one by one; knows their figures at any time."""

    def __init__(self) -> None:
        """Start before the first sample."""
        self.samples = 0
        self.window_ns = 0
        self.unmeasured: Counter[Unmeasured] = Counter()
        self._blocks = Blocks(Block)
        self._threads: dict[str, set[int]] = {}

    def add(self, sample: Sample) -> None:
        """Count a sample."""
        self._blocks.following().add(sample)
        self.unmeasured.update(unmeasured(sample))
        self.samples += 1
        self.window_ns += sample.window.duration_ns
        for thread in sample.threads:
            self._threads.setdefault(class_of(thread.name), set()).add(thread.tid)

    def threads(self) -> dict[str, int]:
        """How many threads of each class were seen; those summed up as ended count as one."""
        return {name: len(tids) for name, tids in self._threads.items()}

    def figures(self) -> dict[Key, Figure]:
        """All figures that there are, by their keys."""
        found = {}
        for key in sorted({key for block in self._blocks.all for key in block.states_ns}):
            if figure := self._share(key, [block.states_ns[key] for block in self._blocks.all]):
                found[key] = figure
        for key in sorted({key for block in self._blocks.all for key in block.roots_ns}):
            if figure := self._share(key, [block.roots_ns[key] for block in self._blocks.all]):
                found[key] = figure
        for key in sorted({key for block in self._blocks.all for key in block.lengths}):
            found |= self._of_lengths(key)
        return found

    def _share(self, key: Key, parts: Sequence[int]) -> Figure | None:
        present = [block.present_ns[key.threads] for block in self._blocks.all]
        estimate = ratio(parts, present)
        if estimate is None:
            return None
        is_held = key.name.endswith(HOLDS)
        is_idle = key.name == "blocked" or (key.name.startswith(ROOT) and not is_held)
        return Figure("share", estimate, 1.0, idle=is_idle)

    def _of_lengths(self, key: Key) -> dict[Key, Figure]:
        all_lengths = [block.lengths[key] for block in self._blocks.all]
        counts = [lengths.count for lengths in all_lengths]
        often = rate(counts, [block.window_ns / NS_PER_S for block in self._blocks.all])
        if often is None or not sum(counts):
            return {}
        mean = ratio([lengths.total_ns for lengths in all_lengths], counts)
        assert mean is not None
        count = sum(counts)
        idle = key.name in POLLS
        threads = self._at_a_time(key.threads)
        per_ns = often.value / NS_PER_S / threads
        each = Key(key.threads, f"{key.name}.rate")
        found = {each: Figure("per_s", often, mean.value / NS_PER_S / threads, idle, count)}
        if key.name == "run" or count < LEAST_COUNT:
            return found
        found[Key(key.threads, f"{key.name}.mean")] = Figure("ns", mean, per_ns, idle, count)
        p99 = percentile_of(
            [lengths.histogram for lengths in all_lengths],
            [lengths.max_ns for lengths in all_lengths],
            0.99,
        )
        if p99 is not None:
            # One call of a hundred is as long, or longer.
            found[Key(key.threads, f"{key.name}.p99")] = Figure(
                "ns", p99, per_ns / 100, idle, count
            )
        return found

    def _at_a_time(self, threads: str) -> float:
        """How many threads of a class there were at any time; without accounts all that were seen.

        A server may start one for each request.
        """
        there_ns = sum(block.present_ns[threads] for block in self._blocks.all)
        if not there_ns:
            return max(1, len(self._threads[threads]))
        return there_ns / max(1, sum(block.window_ns for block in self._blocks.all))


NAMES_REMEMBERED = 4096
"""More than most processes have threads: each has many system calls, in many windows."""


@lru_cache(NAMES_REMEMBERED)
def class_of(name: str) -> str:
    """A thread's name with * for each number in it."""
    return _NUMBERS.sub("*", name)


def _lengths(thread: Thread, threads: str) -> list[tuple[Key, Lengths]]:
    found = [
        (
            Key(threads, call.name or f"syscall {call.number}"),
            Lengths(call.count, call.total_ns, call.max_ns, call.histogram),
        )
        for call in thread.syscalls
        if call.count
    ]
    for name, intervals in (("run", thread.run), ("ready", thread.ready)):
        if intervals is not None:
            lengths = Lengths(
                intervals.count, intervals.total_ns, intervals.max_ns, intervals.histogram
            )
            found.append((Key(threads, name), lengths))
    return found


_LOST = ("irq", "ready", *HOLDS)

# These may wait for work: how long they take depends on whoever gives it.
_MAY_WAIT_FOR_WORK = frozenset(
    {
        *(*POLLS, *FUTEXES, *RESTARTS, RING_ENTRY),
        *("futex_wait", "futex_waitv", "io_getevents", "io_pgetevents"),
        *("nanosleep", "clock_nanosleep", "clock_nanosleep_time64", "pause"),
        *("rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64"),
        *("wait4", "waitid", "waitpid", "semop", "semtimedop", "msgrcv", "mq_timedreceive"),
        *("accept", "accept4", "read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg"),
    }
)


def less_is_better(name: str, *, of_rounds: bool) -> bool:
    """Whether a figure is better if it is less; of all others neither direction is better.

    Args:
        name: The figure, as figures.py has it, or round_figures.py.
        of_rounds: Whether it is of long rounds: whatever takes time there makes them longer. Their
            shares depend on each other, so that none of them is better.

    Rates and counts are of how much work there is. A thread that is blocked may have none.
    """
    part, _, what = name.rpartition(".")
    if of_rounds:
        return what in ("round", "mean")
    if name.startswith(ROOT):
        return what in HOLDS
    if what in ("mean", "p99"):
        # How long a call takes whose name is not known has no meaning either.
        return part not in _MAY_WAIT_FOR_WORK and not part.startswith("syscall ")
    return name in _LOST
