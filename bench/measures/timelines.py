"""What it takes to keep everything in order."""

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure
from bench.measures.acts import compare
from bench.measures.measure import Measure, Setting
from bench.peers.ours import Ours
from bench.peers.peer import Peer
from bench.peers.tracers import PerfSched, PerfTrace, TraceCmd, Wprof


class Timelines(Measure):
    """A timeline, beside what it is without, and beside the tracers."""

    name = "timeline"
    title = "Everything in order"
    method = (
        "The same loads, of the process that is measured, beside tools that keep each event:"
        " `--timeline` has calls, states and interrupts, `perf trace` calls alone, `perf sched"
        " record` the scheduler's events alone, and `trace-cmd` those of calls, of the scheduler"
        " and of interrupts."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run the load, and each tool on it."""
        program = compiled.program("acts", setting.folder)
        peers: list[Peer] = [
            Ours(),
            Ours("--timeline"),
            TraceCmd(setting.folder),
            PerfSched(),
            PerfTrace(),
            Wprof(),
        ]
        with Acting(program, setting.folder / "traced") as traced:
            return compare(peers, setting.rounds, {"traced": traced})
