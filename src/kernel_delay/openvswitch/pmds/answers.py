"""What ovs-vswitchd answers about its PMD threads: `dpif-netdev/pmd-…-show`, 2.17 to 4.0."""

import re
from collections.abc import Mapping

from msgspec import Struct

from kernel_delay.model import RxQueue

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


def _counters(figures: _Figures) -> PmdCounters:
    length = _UPCALL_LENGTH.search(figures.behind("Upcalls"))
    upcall_ns = int(length[1]) * 1000 + int(length[2]) * 100 if length else 0
    counted_ms = figures.count(_COUNTED)
    share = _SHARE.match(figures.behind("Used TSC cycles"))
    used_s = float(share[1]) / 100 * counted_ms / 1000 if share else 0.0
    return PmdCounters(
        counted_ms * 1_000_000,
        figures.count("Iterations"),
        figures.count("busy iterations"),
        figures.count("Sleep time (us)") * 1000,
        figures.count("Rx packets"),
        figures.count("Upcalls"),
        figures.count("Lost upcalls"),
        figures.count("Upcalls") * upcall_ns,
        tuple(figures.lengths),
        figures.count("Used TSC cycles") / used_s if used_s else 0.0,
    )
