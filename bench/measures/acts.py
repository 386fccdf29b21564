"""What is added to a system call, and to a switch between threads."""

import time
from collections.abc import Iterator, Sequence

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure
from bench.measures.measure import Measure, Setting
from bench.peers.empty import Empty
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import Ours
from bench.peers.peer import Peer
from bench.peers.tools import Bpftrace, PerfTrace, Strace, Syscount
from bench.rounds import UNMEASURED, added, interleaved

_BLOCK_S = 0.25
# After going over to other work, or attaching: caches, and code that is patched.
_SETTLE_S = 0.05

WORK = {
    "1 thread": ("calls", 1),
    "2 threads": ("calls", 2),
    "ping": ("pings", 2),
}


SWITCH = "switch alone"


class Acts(Measure):
    """A process that is measured, and one that is not, while the first is."""

    name = "syscall"
    title = "Added to a system call and to a context switch"
    method = (
        "A loop of getppid(2) in one thread, and in two threads on a CPU each. A ping is"
        " two threads on one CPU that wake each other through pipes: four system calls"
        " and two context switches. `traced` is the process that the tool measures,"
        " `other` is another process. `switch alone` is half of the cost of a ping"
        " without its calls. The load runs all the time. A block is the median of batches"
        " of 1,024 calls or 128 pings in 0.25 s."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run both processes; only one of them acts at a time."""
        program = compiled.program("acts", setting.folder)
        quick = [*quick_peers(setting), Syscount(), Bpftrace()]
        with (
            Acting(program, setting.folder / "traced") as traced,
            Acting(program, setting.folder / "other") as other,
        ):
            loads = {"traced": traced, "other": other}
            figures, absent = compare(quick, setting.rounds, loads)
            # These take tens of microseconds a call: noise is no matter, and time is.
            more, missing = compare([PerfTrace(), Strace()], 2, {"traced": traced})
        slow = [figure for figure in more if figure.peer != UNMEASURED]
        return [*figures, *_switches(figures), *slow], absent + missing


def quick_peers(setting: Setting) -> list[Peer]:
    """Return tools that are quick enough for many rounds."""
    return [
        Empty("empty programs", compiled.bpf_object("empty", setting.folder)),
        Empty(
            "programs that read the clock",
            compiled.bpf_object("empty", setting.folder, "READ_CLOCK"),
        ),
        Ours("--no-accounting"),
        Ours(),
        KernelDelayPy(),
        *(Ours("--chains") for _ in setting.beside[:1]),
        *(Ours(tool=tool) for tool in setting.beside),
    ]


def compare(
    peers: Sequence[Peer], rounds: int, loads: dict[str, Acting]
) -> tuple[list[Figure], list[Absence]]:
    """Measure the works of these loads, of which the peers measure the one called traced."""

    def block() -> dict[str, float]:
        taken = {}
        for whose, load in loads.items():
            for what, (work, threads) in WORK.items():
                load.act(work, threads)
                time.sleep(_SETTLE_S)
                taken[f"{whose}, {what}"] = load.measured_ns(_BLOCK_S)
            load.act("rest", 0)
        return taken

    return interleaved(peers, rounds, loads["traced"].pid, block, "ns")


def _switches(figures: Sequence[Figure]) -> Iterator[Figure]:
    """Yield what is added to a context switch itself: half of a ping's, without its four calls."""
    found = {(figure.case, figure.peer): figure for figure in figures}
    for whose in ("traced", "other"):
        for (case, peer), ping in found.items():
            call = found.get((added(f"{whose}, 1 thread"), peer))
            if case == added(f"{whose}, ping") and call is not None:
                pairs = zip(ping.values, call.values, strict=True)
                alone_ns = [(ping_ns - 4 * call_ns) / 2 for ping_ns, call_ns in pairs]
                yield Figure.of(added(f"{whose}, {SWITCH}"), peer, "ns", alone_ns)
