"""What it takes to keep everything in order."""

from collections.abc import Iterator

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure, Measured
from bench.measures.acts import compare
from bench.measures.measure import Measure, Setting
from bench.peers.ours import Ours
from bench.peers.peer import Peer
from bench.peers.tracers import Ftrace, PerfSched, PerfTrace, TraceCmd, Wprof


class Timelines(Measure):
    """A timeline, beside what it is without, and beside the tracers."""

    name = "timeline"
    title = "Everything in order"
    method = (
        "The same loads, for the measured process, beside tools that keep each event."
        " `--timeline` has calls, states and interrupts. `perf trace` has calls alone."
        " `perf sched record` has scheduler events alone. `trace-cmd` has calls,"
        " scheduler events and interrupts. `ftrace` is an instance of tracefs with the"
        " same events of the threads, whose buffers are read and discarded."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run the load, and each tool on it."""
        program = compiled.program("acts", setting.folder)
        peers: list[Peer] = [
            Ours(),
            Ours("--timeline"),
            TraceCmd(setting.folder),
            Ftrace(),
            PerfSched(),
            PerfTrace(),
            Wprof(),
        ]
        with Acting(program, setting.folder / "traced") as traced:
            return compare(peers, setting.rounds, {"traced": traced})

    def remarks(self, measured: Measured) -> Iterator[str]:
        """What was tried for who is absent."""
        absent = {absence.peer for absence in measured.absent}
        if TraceCmd.name in absent:
            remark = (
                "trace-cmd (3.1.6) writes to `kernel.ftrace_enabled` and"
                " `set_ftrace_filter` even if only events are requested. Without function"
                " tracing, as on this machine (EPERM), that ends it. With a plain file in"
                " place of the first it ends at the second, and has recorded nothing."
                " Virtual machines have no KVM here, so the cost of an emulated call"
                " means nothing."
            )
            if any(figure.peer == Ftrace.name for figure in measured.figures):
                remark += f" The row of {Ftrace.name} has the kernel's part of trace-cmd."
            yield remark
        if Wprof.name in absent:
            yield (
                "wprof is in no distribution. Its source (228b169) takes the crates of blazesym,"
                " prost and cpp_demangle, which no machine without crates.io can build it with."
            )
