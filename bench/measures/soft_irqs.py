"""What is added to a soft IRQ: one runs for each packet that goes through a veth or lo."""

import time

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure
from bench.measures.acts import quick_peers
from bench.measures.measure import Measure, Setting
from bench.rounds import interleaved

_BLOCK_S = 0.25
_SETTLE_S = 0.05

TRACED, OTHER = "traced", "other"


class SoftIrqs(Measure):
    """A process that is measured, and one that is not, while the first is."""

    name = "softirq"
    title = "Added to a soft IRQ"
    method = (
        "A thread that sends packets through lo, 128 with a system call. Each packet is"
        " received and dropped in a net_rx soft IRQ of its own on the sender's time, as"
        " with a veth. The cost added to a packet is that of its soft IRQ and a 128th of"
        " that of a call. `traced` is the process that the tool measures, `other` is"
        " another process. A block is the median of batches of 1,024 packets in 0.25 s."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run both processes; only one of them acts at a time."""
        program = compiled.program("acts", setting.folder)
        peers = quick_peers(setting)
        with (
            Acting(program, setting.folder / "traced") as traced,
            Acting(program, setting.folder / "other") as other,
        ):
            loads = {TRACED: traced, OTHER: other}

            def block() -> dict[str, float]:
                return {whose: _packet_ns(load) for whose, load in loads.items()}

            return interleaved(peers, setting.rounds, traced.pid, block, "ns")


def _packet_ns(load: Acting) -> float:
    load.act("packets", 1)
    time.sleep(_SETTLE_S)
    packet_ns = load.measured_ns(_BLOCK_S)
    load.act("rest", 0)
    return packet_ns
