"""What an event, and its stacks, add to the system call."""

import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import structs

from bench import compiled
from bench.figures import Absence, Figure, Values
from bench.measures.measure import Measure, Setting
from bench.rounds import progress
from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.target import find_target

_WINDOW_NS = 1_500_000_000
_BURSTS_BEFORE = 20
# A buffer with room for every stack of a window, also where the machine drains it late.
_EVENTS = EventPlan(buffer_pages=16384)

DEEP, SHALLOW = "stack of 80 KiB", "stack next to empty"
DEPTHS = MappingProxyType({SHALLOW: 0, "stack of 12 KiB": 12, DEEP: 80})
TABLES = "kernel-delay"
PLANS: Mapping[str, EventPlan | None] = MappingProxyType(
    {
        TABLES: None,
        f"{TABLES} -s --stack-mode none": structs.replace(_EVENTS, stack_mode="none"),
        f"{TABLES} -s --stack-mode fp": structs.replace(_EVENTS, stack_mode="fp"),
        f"{TABLES} -s": _EVENTS,
    }
)


class Stacks(Measure):
    """Bursts of calls from stacks of several depths."""

    name = "stacks"
    title = "Added to a system call that is an event"
    method = (
        "Bursts of 20 getppid(2) every 20 ms, in a thread whose stack is next to empty, 12 KiB and"
        " 80 KiB deep and was all written to; the thread's own CPU time, the median over the bursts"
        " of a window of 1.5 s, above that of the bursts before it. Bursts, so that each event"
        " finds room for its stacks: those that found none would cost less."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Measure each plan at each depth, in turn."""
        program = compiled.program("bursts", setting.folder)
        values = Values()
        rounds = min(setting.rounds, 3)
        for number in range(rounds):
            progress(f"round {number + 1} of {rounds}")
            for name, plan in PLANS.items():
                for case, kib in DEPTHS.items():
                    values.note(case, name, "ns", _added_ns(program, kib, plan))
        return values.figures(), []


def _added_ns(program: Path, kib: int, plan: EventPlan | None) -> float:
    pipe = subprocess.PIPE
    with subprocess.Popen([program, str(kib)], stdout=pipe, text=True) as process:
        try:
            assert process.stdout
            before = [int(process.stdout.readline()) for _ in range(_BURSTS_BEFORE)]
            _measure(process.pid, plan)
            process.kill()
            while_measured = [int(line) for line in process.stdout]
        finally:
            process.kill()
    # The first and the last may be from outside the window.
    during = while_measured[len(while_measured) // 4 : -len(while_measured) // 8]
    return statistics.median(during) - statistics.median(before)


def _measure(pid: int, plan: EventPlan | None) -> None:
    windows = WindowPlan(sample_time_ns=_WINDOW_NS)
    with Session(find_target(pid), windows, SessionOptions(events=plan)) as session:
        for sample in session.samples():
            assert not sample.lost.stacks, "stacks found no room: the figure would be too low"
