"""What an event, and its stacks, add to the system call."""

import statistics
import subprocess
from pathlib import Path
from types import MappingProxyType

from bench import compiled
from bench.figures import Absence, Figure, Values
from bench.measures.measure import Measure, Setting
from bench.peers.ours import Ours
from bench.peers.peer import PeerError
from bench.rounds import in_turn
from bench.run import run

_WINDOW_S = 1.5
_BURSTS_BEFORE = 20
# A buffer with room for every stack of a window, also where the machine drains it late.
_ROOM = ("--buffer-page-count", "16384")

SHALLOW, DEEP = "stack next to empty", "stack of 80 KiB"
DEPTHS = MappingProxyType({SHALLOW: 0, "stack of 12 KiB": 12, DEEP: 80})


class Stacks(Measure):
    """Bursts of calls from stacks of several depths."""

    name = "stacks"
    title = "Added to a system call that is an event"
    method = (
        "Bursts of 20 getppid(2) every 20 ms, in a thread with an almost empty stack,"
        " one of 12 KiB and one of 80 KiB. The figure is the thread's own CPU time: the"
        " median of the bursts in a window of 1.5 s, less that of the bursts before the"
        " window. Bursts leave room for the stacks of each event. An event without stacks"
        " would cost less."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Measure each plan at each depth, in turn."""
        program = compiled.program("bursts", setting.folder)
        report = setting.folder / "report"
        values = Values()

        def measure(peer: Ours) -> None:
            for case, kib in DEPTHS.items():
                values.note(case, peer.name, "ns", _added_ns(peer, program, kib, report))

        events = [reporting_events(mode) for mode in ("none", "fp", "dwarf")]
        absent = in_turn([Ours(), *events], min(setting.rounds, 3), measure)
        return values.figures(), absent


def reporting_events(stack_mode: str) -> Ours:
    """Return the peer that reports each call as an event, with stacks taken in this mode."""
    return Ours("-s", "--stack-mode", stack_mode, *_ROOM)


def _added_ns(peer: Ours, program: Path, kib: int, report: Path) -> float:
    pipe = subprocess.PIPE
    with subprocess.Popen([program, str(kib)], stdout=pipe, text=True) as process:
        try:
            assert process.stdout
            before = [int(process.stdout.readline()) for _ in range(_BURSTS_BEFORE)]
            run(peer, process.pid, _WINDOW_S, report)
            process.kill()
            while_measured = [int(line) for line in process.stdout]
        finally:
            process.kill()
    if "no room for the stacks" in report.read_text():
        raise PeerError("stacks found no room: the figure would be too low")
    # The first and the last may be from outside the window.
    during = while_measured[len(while_measured) // 4 : -len(while_measured) // 8]
    return statistics.median(during) - statistics.median(before)
