"""A storm of events: does the window end on time, what is kept, and what it takes."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import compiled
from bench.acting import Acting
from bench.figures import Absence, Figure, Values
from bench.measures.measure import Measure, Setting
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import Ours
from bench.peers.peer import ReportingPeer
from bench.rounds import in_turn, progress
from bench.run import Run, run

_WINDOW_S = 1.0
_WINDOW_NS = 1_000_000_000
# How long to wait for a report that may never come.
_LIMIT_S = 15.0
STORMS = {"flat out": ("calls", 1), "1,000,000/s": ("paced", 1000)}
STACKLESS = ("-s", "--stack-mode", "none")


class _Window(Struct):
    start_ns: int
    stop_ns: int


class _Lost(Struct):
    events: int
    shorter_events: int
    stacks: int


class _Sample(Struct):
    """What is read of a Sample."""

    window: _Window
    lost: _Lost
    syscall_events: list[msgspec.Raw]


class Storm(Measure):
    """Every system call reported, of a thread that makes nothing else."""

    name = "storm"
    title = "A storm of events"
    method = (
        "`-s` on one thread in a loop of getppid(2), at full speed and paced: a window"
        " of one second, reported as JSON by kernel-delay. A tool that has not ended"
        f" after {_LIMIT_S:g} s is killed. Beyond a million events the shortest are left"
        " out (--max-events). Those are not dropped."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run ours, in turn, and then theirs, once."""
        program = compiled.program("acts", setting.folder)
        report = setting.folder / "report"
        values = Values()
        with Acting(program, setting.folder / "batches") as load:

            def ours(peer: ReportingPeer) -> None:
                for case, work in STORMS.items():
                    load.act(*work)
                    note_ours(
                        values, case, peer.name, run(peer, load.pid, _WINDOW_S, report), report
                    )
                load.act("rest", 0)

            def theirs(peer: ReportingPeer) -> None:
                load.act("calls", 1)
                taken = run(peer, load.pid, _WINDOW_S, report, _LIMIT_S)
                load.act("rest", 0)
                report.unlink()
                values.note("flat out: ended", peer.name, "", float(taken.ended))
                values.note("flat out: peak memory", peer.name, "MiB", taken.peak_mib)

            options = ("--json",)
            absent = in_turn(
                [Ours("-s", *options), Ours(*STACKLESS, *options)], min(setting.rounds, 3), ours
            )
            progress("kernel_delay.py")
            absent += in_turn([KernelDelayPy("-s")], 1, theirs)
        return values.figures(), absent


def note_ours(values: Values, storm: str, peer: str, taken: Run, report: Path) -> None:
    """Note what the JSON of one window says, and what the run took."""
    # In another process: what it needs would stand for the memory of whatever this starts later.
    with ProcessPoolExecutor(1, get_context("spawn")) as another:
        window, lost, kept = another.submit(_read, report).result()
    report.unlink()
    late_ns = window.stop_ns - window.start_ns - _WINDOW_NS
    all_of_them = kept + lost.events + lost.shorter_events
    for case, unit, value in (
        ("ended", "", float(taken.ended)),
        ("window too long by", "ns", late_ns),
        ("events", "", all_of_them),
        ("kept", "", kept),
        ("dropped", "", lost.events),
        ("without stack", "", lost.stacks),
        ("report after", "ms", (taken.ended_ns - window.stop_ns) / 1e6),
        ("peak memory", "MiB", taken.peak_mib),
    ):
        values.note(f"{storm}: {case}", peer, unit, value)


def _read(report: Path) -> tuple[_Window, _Lost, int]:
    """Return its window, what was lost, and how many events there are."""
    sample = msgspec.json.decode(report.read_bytes(), type=_Sample)
    return sample.window, sample.lost, len(sample.syscall_events)
