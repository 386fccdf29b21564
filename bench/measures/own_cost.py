"""What the tool itself takes: time until it measures, memory, CPU time."""

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure, Values
from bench.measures.measure import Measure, Setting
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import Ours
from bench.peers.peer import ReportingPeer
from bench.rounds import in_turn
from bench.run import run

_SHORT_S, _LONG_S = 0.5, 5.0
OPENS = "window opens after"
REPORTED = "window's end to exit"
PEAK = "peak memory, 0.5 s"
PEAK_LONG = "peak memory, 5 s"
CPU = "CPU time, 0.5 s"
CPU_PER_S = "CPU time per s of capture"


class OwnCost(Measure):
    """Runs from start to end, of a process that is busy with system calls."""

    name = "own"
    title = "What the tool itself takes"
    method = (
        "Complete runs of half a second and of five seconds, on a process with one"
        " thread in a loop of getppid(2). The window opens when the report says so."
        " Memory is the largest resident set. CPU time is user and system time"
        " (wait4(2)). The CPU time per second of capture is the difference of the long"
        " and the short run."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run all in turn."""
        program = compiled.program("acts", setting.folder)
        report = setting.folder / "report"
        values = Values()
        with Acting(program, setting.folder / "batches") as load:
            load.act("calls", 1)

            def measure(peer: ReportingPeer) -> None:
                short = run(peer, load.pid, _SHORT_S, report)
                long = run(peer, load.pid, _LONG_S, report)
                values.note(OPENS, peer.name, "ms", (short.opened_ns - short.begun_ns) / 1e6)
                values.note(REPORTED, peer.name, "ms", (short.ended_ns - short.closed_ns) / 1e6)
                values.note(PEAK, peer.name, "MiB", short.peak_mib)
                values.note(PEAK_LONG, peer.name, "MiB", long.peak_mib)
                values.note(CPU, peer.name, "ms", short.cpu_ns / 1e6)
                more_ns = (long.cpu_ns - short.cpu_ns) / (_LONG_S - _SHORT_S)
                values.note(CPU_PER_S, peer.name, "ms", more_ns / 1e6)

            peers = [Ours(), Ours("--no-accounting"), KernelDelayPy()]
            absent = in_turn(peers, min(setting.rounds, 3), measure)
        return values.figures(), absent
