"""Packets through a PMD thread of Open vSwitch, unmeasured and measured."""

import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench import compiled
from bench.figures import Absence, Figure, Measured
from bench.flooded import Flooded
from bench.measures.measure import Measure, Setting
from bench.measures.packets import FEWER, RAW, TO_A_PACKET, confidence
from bench.peers.ours import OurCommand, Ours
from bench.peers.peer import Peer
from bench.rounds import UNMEASURED, in_turn
from kernel_delay.errors import KernelDelayError
from lab.binaries import Binaries

WATCH = "kernel-delay watch"

MOST_FEWER = 3
"""What a watch may cost, in % of the packets."""

_BLOCK_S = 1.0
_SETTLE_S = 0.2
_SETUP = Path(__file__).parent.parent.parent / "setup" / "openvswitch.sh"


class PmdPackets(Measure):
    """One PMD thread, with and without a command attached to its process."""

    name = "pmd"
    title = "Packets through a PMD thread"
    method = (
        "UDP packets of 64 bytes in 100 streams, as fast as one CPU sends them. A PMD"
        " thread on the other CPU forwards them by AF_XDP, from one veth to another. The"
        " figure is packets per second of that thread's CPU time in iterations with packets"
        " (`pmd-stats-show`): what other tasks of the machine take does not count. Fewer"
        " packets, and CPU time added to a packet, compare with the blocks before and after"
        " that have nothing attached, of the same ovs-vswitchd. Each pair has one of its own."
        " Open vSwitch is Debian's package."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Flood one for each peer, bare before and after it is attached."""
        flood = compiled.program("flood", setting.folder)
        root = subprocess.run([_SETUP], stdout=subprocess.PIPE, check=True, text=True).stdout
        peers: list[Peer] = [
            peer
            for peer in (OurCommand("watch"), OurCommand("watch", "--no-stacks"), Ours())
            if not setting.peers or peer.name in setting.peers
        ]
        rates: dict[str, list[float]] = defaultdict(list)
        bare: dict[str, list[float]] = defaultdict(list)
        binaries = Binaries.under(Path(root.strip()))

        def measured(peer: Peer) -> None:
            with Flooded(binaries, flood, pmd=True) as ovs:
                before = _rate(ovs)
                with peer.attached(ovs.pid):
                    rate = _rate(ovs)
                after = _rate(ovs)
            # AF_XDP may lose all its buffers: nothing is forwarded any more then.
            if before and rate and after:
                rates[UNMEASURED] += [before, after]
                rates[peer.name].append(rate)
                bare[peer.name].append(statistics.mean((before, after)))

        try:
            absent = in_turn(peers, setting.rounds, measured)
        except KernelDelayError as error:
            return [], [Absence(peer.name, str(error)) for peer in peers]
        found = [Figure.of(RAW, peer, "/s", values) for peer, values in rates.items()]
        for peer, bases in bare.items():
            pairs = list(zip(rates[peer], bases, strict=False))
            fewer = [(1 - rate / base) * 100 for rate, base in pairs]
            found.append(Figure.of(FEWER, peer, "%", fewer))
            added = [1e9 / rate - 1e9 / base for rate, base in pairs]
            found.append(Figure.of(TO_A_PACKET, peer, "ns", added))
        return found, absent

    def remarks(self, measured: Measured) -> Iterator[str]:
        """Say what a watch takes, beside what it may take."""
        fewer = measured.figure(FEWER, WATCH)
        if fewer is not None and len(fewer.values) > 1:
            low, high = confidence(fewer.values)
            yield (
                f"With {WATCH} attached all the time the PMD thread forwards {low:.1f} to"
                f" {high:.1f} % fewer packets: 95 % confidence, of {len(fewer.values)} pairs. It is"
                f" to be {MOST_FEWER} % at most."
            )


def _rate(ovs: Flooded) -> float:
    ovs.toggle()
    time.sleep(_SETTLE_S)
    rate = ovs.per_second(_BLOCK_S)
    ovs.toggle()
    return rate
