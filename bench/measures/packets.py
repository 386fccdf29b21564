"""Packets through Open vSwitch, unmeasured and measured: the price that its users pay."""

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from bench import compiled
from bench.figures import Absence, Figure
from bench.flooded import Flooded
from bench.measures.measure import Measure, Setting
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import OurCommand, Ours
from bench.peers.peer import Peer
from bench.rounds import in_turn
from lab.binaries import Binaries
from tests import ovs_with_usdt

REFERENCE = "without probes"
PROBES = "with probes, none attached"
AVERAGE, DEVIATION, DELTA = "average", "relative deviation", "delta to reference"
RAW = "median"

_BLOCK_S = 0.7
_SETTLE_S = 0.2


class Packets(Measure):
    """Open vSwitch built without USDT probes, with them, and with each command attached to it."""

    name = "packets"
    title = "Packets through Open vSwitch"
    method = (
        "UDP packets of 64 bytes in 100 streams, as fast as one CPU sends them, through the"
        " userspace datapath of an ovs-vswitchd that has the other CPU, from one veth to another;"
        " packets that come out per second of its CPU time, which is all it can get: more are sent"
        " than it forwards. Two builds of the same source, one without USDT"
        " probes: the reference. The rest is with probes. Deviation: the standard deviation over"
        " the rounds, relative to the average."
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

            absent = in_turn(_peers(), setting.rounds, attached, unmeasured)
        return list(figures(rates)), absent


def _peers() -> Sequence[Peer]:
    return [
        Ours(),
        Ours("--no-accounting"),
        Ours("-s", "1000000"),
        OurCommand("bridge-loop", "-q"),
        OurCommand("upcall-monitor"),
        OurCommand("upcall-cost", "-q"),
        KernelDelayPy(),
    ]


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
    return found
