"""How the time from the window's end to the tool's end grows with what there is to report."""

from contextlib import ExitStack

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure, Values
from bench.measures.measure import Measure, Setting
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import Ours
from bench.peers.peer import PeerError, ReportingPeer
from bench.rounds import in_turn, progress
from bench.run import Run, run
from lab.child import Child

THREADS = (10, 1000, 5000)
EVENTS = (1000, 10_000, 100_000, 1_000_000)
_START_S = 30.0
# The threads act five times a second.
_WINDOW_S = 0.5
_LIMIT_S = 20.0
# Enough for a million of events, with stacks.
_STORM_S = 3.0


class Reporting(Measure):
    """Threads that each did something; and a number of the events of a storm."""

    name = "report"
    title = "From the end of the window to the tool's end"
    method = (
        "Text, written to a file. The threads make two system calls and sleep, five"
        " times a second, in a window of half a second. The events are the longest of a"
        " storm of three seconds (`-s --max-events`)."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Start each number of threads, then the storm, and report each in turn."""
        rounds = max(1, setting.rounds // 2)
        values = Values()
        absent: list[Absence] = []
        report = setting.folder / "report"
        threads = compiled.program("threads", setting.folder)
        for count in THREADS:
            progress(f"{count} threads")
            with ExitStack() as stack:
                crowd = Child([threads, str(count)])
                stack.callback(crowd.stop)
                crowd.expect("ready", _START_S)

                def measure(peer: ReportingPeer, count: int = count, pid: int = crowd.pid) -> None:
                    taken = run(peer, pid, _WINDOW_S, report, _LIMIT_S)
                    if not taken.ended:
                        raise PeerError(f"{count:,} threads: no report within {_LIMIT_S:g} s")
                    values.note(threads_case(count), peer.name, "ms", reported_ms(taken))
                    values.note(f"{count:,} threads, memory", peer.name, "MiB", taken.peak_mib)

                absent += in_turn([Ours(), KernelDelayPy()], rounds, measure)
        with Acting(compiled.program("acts", setting.folder), setting.folder / "batches") as load:
            load.act("calls", 1)

            def events(_: ReportingPeer) -> None:
                for count in EVENTS:
                    peer = Ours("-s", "--stack-mode", "none", "--max-events", str(count))
                    taken = run(peer, load.pid, _STORM_S, report)
                    values.note(events_case(count), "kernel-delay -s", "ms", reported_ms(taken))

            absent += in_turn([Ours("-s")], rounds, events)
        return values.figures(), list(dict.fromkeys(absent))


def threads_case(count: int) -> str:
    """Name the case of `count` threads."""
    return f"{count:,} threads"


def events_case(count: int) -> str:
    """Name the case of `count` events."""
    return f"{count:,} events"


def reported_ms(taken: Run) -> float:
    """Return the time from the end of the window to that of the tool."""
    return (taken.ended_ns - taken.closed_ns) / 1e6
