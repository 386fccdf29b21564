"""Packets through Open vSwitch, unmeasured and measured: the price that its users pay."""

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import compiled
from bench.figures import Absence, Figure, Measured
from bench.flooded import Flooded
from bench.measures.measure import Measure, Setting
from bench.peers.empty import Empty
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import OurCommand, Ours
from bench.peers.peer import Peer
from bench.rounds import in_turn
from kernel_delay.analysis.spread import critical
from lab.binaries import Binaries
from tests import ovs_with_usdt

REFERENCE = "without probes"
PROBES = "with probes, none attached"
AVERAGE, DEVIATION, DELTA = "average", "relative deviation", "delta to reference"
RAW = "median"
# Both against the same build with nothing attached, round by round.
TO_A_PACKET = "added to a packet"
FEWER = "fewer packets"

OURS = "kernel-delay"
WATCHES = ("kernel-delay watch", "kernel-delay watch --timeline")
EMPTY, CLOCK = "empty programs", "programs that read the clock"
SOFT_IRQS_EMPTY, SOFT_IRQS_CLOCK = f"{EMPTY}, soft IRQs alone", f"{CLOCK}, soft IRQs alone"

_FLOORS = {
    EMPTY: (),
    CLOCK: ("READ_CLOCK",),
    SOFT_IRQS_EMPTY: ("SOFT_IRQS_ALONE",),
    SOFT_IRQS_CLOCK: ("SOFT_IRQS_ALONE", "READ_CLOCK"),
}

_BLOCK_S = 0.7
_SETTLE_S = 0.2


class Packets(Measure):
    """Open vSwitch built without USDT probes, with them, and with each command attached to it."""

    name = "packets"
    title = "Packets through Open vSwitch"
    method = (
        "UDP packets of 64 bytes in 100 streams, as fast as one CPU sends them. They"
        " pass the userspace datapath of an ovs-vswitchd on the other CPU, from one veth"
        " to another. The figure is packets per second of CPU time of that ovs-vswitchd:"
        " more are sent than it forwards. There are two builds of the same source. The"
        " reference is the build without USDT probes. Deviation is the standard deviation"
        " of the rounds, relative to the average. Fewer packets, and CPU time added to a"
        " packet, compare with the same round with probes, none attached."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Flood one Open vSwitch at a time."""
        flood = compiled.program("flood", setting.folder)
        plain = Binaries.under(ovs_with_usdt.build(probes=False))
        probed = Binaries.under(ovs_with_usdt.build())
        rates: dict[str, list[float]] = defaultdict(list)
        with Flooded(plain, flood) as reference, Flooded(probed, flood) as measured:

            def unmeasured() -> None:
                rates[REFERENCE].append(_rate(reference))
                rates[PROBES].append(_rate(measured))

            def attached(peer: Peer) -> None:
                with peer.attached(measured.pid):
                    rate = _rate(measured)
                rates[peer.name].append(rate)

            absent = in_turn(_wanted(setting), setting.rounds, attached, unmeasured)
        return list(figures(rates)), absent

    def remarks(self, measured: Measured) -> Iterator[str]:
        """What the cost of kernel-delay is made of, and what one that stays attached takes."""
        yield from self._made_of(measured)
        for peer in WATCHES:
            fewer = measured.figure(FEWER, peer)
            if fewer is not None and len(fewer.values) > 1:
                low, high = confidence(fewer.values)
                yield (
                    f"With {peer} attached all the time Open vSwitch forwards {low:.1f} to"
                    f" {high:.1f} % fewer packets: 95 % confidence, of {len(fewer.values)} pairs."
                )

    def _made_of(self, measured: Measured) -> Iterator[str]:
        added = [measured.figure(TO_A_PACKET, peer) for peer in (EMPTY, CLOCK, OURS)]
        alone = [measured.figure(TO_A_PACKET, peer) for peer in (SOFT_IRQS_EMPTY, SOFT_IRQS_CLOCK)]
        if None in (*added, *alone):
            return
        called, clock, ours = (figure.median for figure in added if figure)
        soft_called, soft_clock = (figure.median for figure in alone if figure)
        if not (0 <= called <= clock <= ours and 0 <= soft_called <= soft_clock):
            yield "What this cost is made of was below the noise of this run."
            return
        yield (
            f"{OURS} adds {ours:.0f} ns to a packet. The calls of its programs take"
            f" {called:.0f} ns,"
            f" their readings of the clock {clock - called:.0f} ns, and their own work"
            f" {ours - clock:.0f} ns. Each packet runs one soft IRQ. There the calls take"
            f" {soft_called:.0f} ns and the clock {soft_clock - soft_called:.0f} ns. The rest is at"
            " system calls and context switches."
        )


def _wanted(setting: Setting) -> Sequence[Peer]:
    peers = _peers(setting.folder)
    return [peer for peer in peers if not setting.peers or peer.name in setting.peers]


def _peers(folder: Path) -> Sequence[Peer]:
    return [
        Ours(),
        *(
            Empty(name, compiled.bpf_object("empty", folder, *definitions))
            for name, definitions in _FLOORS.items()
        ),
        Ours("--no-accounting"),
        Ours("-s", "1000000"),
        OurCommand("watch"),
        OurCommand("watch", "--timeline"),
        OurCommand("bridge-loop", "-q"),
        OurCommand("upcall-monitor"),
        OurCommand("upcall-cost", "-q"),
        KernelDelayPy(),
    ]


def confidence(values: Sequence[float]) -> tuple[float, float]:
    """Return between what the mean of such values lies, with 95 % confidence; of two or more."""
    mean, count = statistics.mean(values), len(values)
    reach = critical(0.05, count - 1) * statistics.stdev(values) / math.sqrt(count)
    return mean - reach, mean + reach


def _rate(ovs: Flooded) -> float:
    ovs.toggle()
    time.sleep(_SETTLE_S)
    rate = ovs.per_second(_BLOCK_S)
    ovs.toggle()
    return rate


def figures(rates: Mapping[str, Sequence[float]]) -> list[Figure]:
    """Make the columns of the table out of the packets per second."""
    reference = statistics.mean(rates[REFERENCE])
    found = []
    for peer, values in rates.items():
        average = statistics.mean(values)
        deviation = statistics.stdev(values) / average * 100 if len(values) > 1 else 0.0
        found += [
            Figure.of(RAW, peer, "/s", values),
            Figure.of(AVERAGE, peer, "/s", [average]),
            Figure.of(DEVIATION, peer, "%", [deviation]),
            Figure.of(DELTA, peer, "%", [(reference - average) / reference * 100]),
        ]
        if peer not in (REFERENCE, PROBES):
            found += _against_bare(peer, values, rates.get(PROBES, ()))
    return found


def _against_bare(peer: str, values: Sequence[float], bare: Sequence[float]) -> list[Figure]:
    # A peer that failed has none of the last rounds.
    pairs = list(zip(values, bare, strict=False))
    if not pairs:
        return []
    return [
        Figure.of(FEWER, peer, "%", [(1 - rate / base) * 100 for rate, base in pairs]),
        Figure.of(TO_A_PACKET, peer, "ns", [1e9 / rate - 1e9 / base for rate, base in pairs]),
    ]
