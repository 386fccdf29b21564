"""What PMD threads of ovs-vswitchd did in a window, by its own answers about their iterations.

The answers are those of `dpif-netdev/pmd-…-show`, 2.17 to 4.0.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, structs

from kernel_delay.model import PmdStats, RxQueue, Thread
from kernel_delay.openvswitch.unixctl import Answers

# The only datapath that ovs-vswitchd makes in user space (lib/dpif-netdev.c). Without a name, each
# command fails where a test made a second one.
DATAPATH = "ovs-netdev"

PERFORMANCE = ("dpif-netdev/pmd-perf-show", DATAPATH)
CYCLES = ("dpif-netdev/pmd-stats-show", DATAPATH)
"""Its cycles are exact. In 4.0 it is the same as the other, which has rounded shares of them."""
RX_QUEUES = ("dpif-netdev/pmd-rxq-show", DATAPATH)

COMMANDS = (PERFORMANCE, CYCLES, RX_QUEUES)

UPCALL_ROUNDING_NS = 50
"""The length of an upcall is printed in tenths of a microsecond."""

# Counts have 63 bits.
_THREAD = re.compile(r"pmd thread numa_id -?\d+ core_id (\d{1,9}):")
_DURATION = re.compile(r"Measurement duration: (\d{1,15})\.(\d{3}) s")
_FIGURE = re.compile(r" +(?:- )?([^:]+): *(\d{1,18})\b(.*)")
_HISTOGRAMS = "Histograms"
# The first of their columns is that of cycles an iteration: at most so many, and how often.
_ITERATIONS = re.compile(r" +(\d{1,10}|>) +(\d{1,18}) ")
_SHARE = re.compile(r" +\( *(\d{1,3}\.\d) % of total cycles\)")
_UPCALL_LENGTH = re.compile(r"(\d{1,12})\.(\d) us/upcall")
_RX_QUEUE = re.compile(r"  port: (\S+) +queue-id: +(\d{1,9}) \((en|dis)abled\) +pmd usage: +(.*)")
_USAGE = re.compile(r"(\d{1,3}) %")


class PmdCounters(Struct, frozen=True):
    """What a PMD thread counted since it was made, or since `pmd-stats-clear`."""

    counted_ns: int
    iterations: int
    busy_iterations: int
    sleep_ns: int
    packets: int
    upcalls: int
    lost_upcalls: int
    upcall_ns: int
    lengths: tuple[tuple[int, int], ...] = ()
    """How many iterations took more than so many cycles, and not more than the next, with
    `pmd-perf-metrics`."""
    cycles_per_s: float = 0.0


COUNTS = PmdCounters.__struct_fields__[:7]
"""Those that never fall, unless they begin anew."""


class PmdCycles(Struct, frozen=True):
    """The cycles of a PMD thread's iterations, by whether they had packets."""

    busy: int
    idle: int


class _Figures:
    """Counts by their names, and what stands behind them; and the histogram of iterations."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, str]] = {}
        self.lengths: list[tuple[int, int]] = []
        self.at_most = 0

    def count(self, name: str) -> int:
        return self.counts.get(name, (0, ""))[0]

    def behind(self, name: str) -> str:
        return self.counts.get(name, (0, ""))[1]


def parse_performance(text: str) -> Mapping[int, PmdCounters]:
    """Return the counters of each PMD thread, by its core."""
    return {
        core: _counters(figures)
        for core, figures in _figures(text).items()
        if figures.counts.keys() >= {"Iterations", _COUNTED}
    }


def parse_cycles(text: str) -> Mapping[int, PmdCycles]:
    """Return the cycles of each PMD thread, by its core; nothing in 4.0."""
    return {
        core: PmdCycles(figures.count("processing cycles"), figures.count("idle cycles"))
        for core, figures in _figures(text).items()
        if figures.counts.keys() >= {"processing cycles", "idle cycles"}
    }


def parse_rx_queues(text: str) -> Mapping[int, tuple[RxQueue, ...]]:
    """Return the receive queues of each PMD thread, by its core."""
    found: dict[int, list[RxQueue]] = {}
    queues: list[RxQueue] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            queues = found.setdefault(int(thread[1]), [])
        elif queue := _RX_QUEUE.match(line):
            usage = _USAGE.match(queue[4])
            percent = int(usage[1]) if usage else None
            queues.append(RxQueue(queue[1], int(queue[2]), queue[3] == "en", percent))
    return {core: tuple(queues) for core, queues in found.items()}


_COUNTED = "Measurement duration"


def _figures(text: str) -> Mapping[int, _Figures]:
    found: dict[int, _Figures] = {}
    figures = _Figures()
    counted_ms, in_histograms = None, False
    for line in text.splitlines():
        if duration := _DURATION.match(line):
            counted_ms = int(duration[1]) * 1000 + int(duration[2])
        elif thread := _THREAD.match(line):
            figures = found.setdefault(int(thread[1]), _Figures())
            if counted_ms is not None:
                figures.counts[_COUNTED] = counted_ms, ""
        elif line == _HISTOGRAMS:
            in_histograms = True
        elif line and not line.startswith(" "):
            # The averages of the histograms follow, or the main thread.
            figures, in_histograms = _Figures(), False
        elif in_histograms and (row := _ITERATIONS.match(line)):
            figures.lengths.append((figures.at_most, int(row[2])))
            figures.at_most = int(row[1]) if row[1] != ">" else figures.at_most
        elif figure := _FIGURE.match(line):
            figures.counts.setdefault(figure[1], (int(figure[2]), figure[3]))
    return found


MOST_NS = (1 << 63) - 1
"""What a recording has room for: more is none of Open vSwitch's."""


def _counters(figures: _Figures) -> PmdCounters:
    length = _UPCALL_LENGTH.search(figures.behind("Upcalls"))
    upcall_ns = int(length[1]) * 1000 + int(length[2]) * 100 if length else 0
    counted_ms = figures.count(_COUNTED)
    share = _SHARE.match(figures.behind("Used TSC cycles"))
    used_s = float(share[1]) / 100 * counted_ms / 1000 if share else 0.0
    return PmdCounters(
        min(counted_ms * 1_000_000, MOST_NS),
        figures.count("Iterations"),
        figures.count("busy iterations"),
        min(figures.count("Sleep time (us)") * 1000, MOST_NS),
        figures.count("Rx packets"),
        figures.count("Upcalls"),
        figures.count("Lost upcalls"),
        min(figures.count("Upcalls") * upcall_ns, MOST_NS),
        tuple(figures.lengths),
        figures.count("Used TSC cycles") / used_s if used_s else 0.0,
    )


# As of pmd-c03/id:12: lib/dpif-netdev.c:pmd_thread_main(), Open vSwitch 2.17 to 4.0.
_NAME = re.compile(r"pmd-c(\d{1,9})/id:")

# What rounding may hide of the length of upcalls.
MOST_ROUNDING = 0.1


def with_pmds(
    threads: Iterable[Thread], eldest: Collection[int], began: Answers, ended: Answers
) -> tuple[Thread, ...]:
    """Add to each PMD thread what was counted of it.

    `eldest` are the first threads of their names: those that these made have the same names.
    """
    threads = tuple(threads)
    stats = pmd_stats(began, ended)
    names = (_NAME.match(each.name) if each.tid in eldest else None for each in threads)
    cores = [int(name[1]) if name else None for name in names]
    # Another datapath may have a PMD thread on the same core; whose the counts are is not known.
    once = {core for core, count in Counter(cores).items() if count == 1}
    return tuple(
        structs.replace(thread, pmd=stats[core])
        if core is not None and core in stats and core in once
        else thread
        for thread, core in zip(threads, cores, strict=True)
    )


def pmd_stats(began: Answers, ended: Answers) -> Mapping[int, PmdStats]:
    """Return what each PMD thread did, by its core; of those that counted at both times."""
    had, has = (parse_performance(each.texts.get(PERFORMANCE, "")) for each in (began, ended))
    old, new = (parse_cycles(each.texts.get(CYCLES, "")) for each in (began, ended))
    polled, polls = (parse_rx_queues(each.texts.get(RX_QUEUES, "")) for each in (began, ended))
    pollers = {(each.port, each.queue): core for core, all_ in polled.items() for each in all_}
    return {
        core: structs.replace(
            found,
            busy_share=_busy_share(old.get(core), new.get(core)),
            rx_queues=tuple(_rx_queue(each, core, pollers) for each in polls.get(core, ())),
        )
        for core, after in has.items()
        if core in had and (found := _stats(had[core], after)) is not None
    }


def _stats(before: PmdCounters, after: PmdCounters) -> PmdStats | None:
    """Return the difference; None where the counters began anew."""
    since = {name: getattr(after, name) - getattr(before, name) for name in COUNTS}
    if any(count < 0 for count in since.values()):
        return None
    return PmdStats(
        **since,
        upcall_ns=_upcall_ns(before, after),
        longest_ns=_longest_ns(before, after),
    )


def _upcall_ns(before: PmdCounters, after: PmdCounters) -> int | None:
    """Return how long the upcalls took; None where that is not measured, or rounding hides it."""
    spent_ns = after.upcall_ns - before.upcall_ns
    rounding_ns = UPCALL_ROUNDING_NS * (before.upcalls + after.upcalls)
    return spent_ns if spent_ns > 0 and rounding_ns <= MOST_ROUNDING * spent_ns else None


def _longest_ns(before: PmdCounters, after: PmdCounters) -> int | None:
    """Return what the longest iteration took at least; None where that is not measured."""
    if not after.cycles_per_s or len(before.lengths) != len(after.lengths):
        return None
    longest = None
    for (_, had), (cycles, has) in zip(before.lengths, after.lengths, strict=True):
        if has > had:
            longest = round(cycles / after.cycles_per_s * 1e9)
    return longest


def _busy_share(before: PmdCycles | None, after: PmdCycles | None) -> float | None:
    if before is None or after is None:
        return None
    busy, idle = after.busy - before.busy, after.idle - before.idle
    return busy / (busy + idle) if busy >= 0 and idle >= 0 and busy + idle else None


def _rx_queue(queue: RxQueue, core: int, pollers: Mapping[tuple[str, int], int]) -> RxQueue:
    """Say which thread polled a queue before, if it was another one."""
    poller = pollers.get((queue.port, queue.queue), core)
    return queue if poller == core else structs.replace(queue, moved_from_core=poller)
