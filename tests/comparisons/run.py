"""python -m tests.comparisons.run: captures of the same load, and of one with a slower system call.

Each run is three captures: two of the load as it is, which shall be no change, and one in which
each call that answers a client takes a fifth longer, which shall be named. Exits with 1 unless that
is so in 19 of 20.

The samples of the three take turns. One after the other they would be of other machines: a virtual
one's CPUs get slower by a fourth for seconds, and `compare` rightly says so.
"""

import argparse
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from random import Random

import msgspec

from kernel_delay.analysis.comparison import Comparison, compare
from kernel_delay.analysis.figures import Figures
from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.loader.base import start_log
from kernel_delay.model import Sample
from tests.comparisons.loads import LOADS, Load
from tests.comparisons.slower import Delay, compile_delay, delayed
from tests.system_calls import syscall_number

RUNS = 20
LEAST_SHARE = 19 / 20
SLOWER_BY = 0.2

# Of each of the three captures of a run.
SAMPLES = 50
SAMPLE_TIME_NS, INTERVAL_NS = 150_000_000, 10_000_000
# The place of the slower one among them; how long a call takes is of so many samples just before.
SLOWER, NEWEST = 2, 6


class Outcomes(msgspec.Struct):
    """Of how many runs, in how many the same load was no change, and the slower call was named."""

    runs: int = 0
    same: int = 0
    named: int = 0

    @property
    def enough(self) -> bool:
        """Whether `compare` is as good as it says."""
        return min(self.same, self.named) >= LEAST_SHARE * self.runs


def captures(load: Load, delay: Delay, order: Random) -> tuple[Figures, Figures, Figures]:
    """Capture the load twice as it is, and slower; the samples of the three take turns."""
    taken = (Figures(), Figures(), Figures())
    plan = WindowPlan(
        sample_time_ns=SAMPLE_TIME_NS, interval_ns=INTERVAL_NS, count=SAMPLES * len(taken)
    )
    # Before it is made slower, how long the call takes must be known.
    turns = [*range(len(taken))]
    while len(turns) < plan.count:
        turns += order.sample(range(len(taken)), len(taken))
    as_it_is: deque[Sample] = deque(maxlen=NEWEST)
    with Session(find_target(load.pid), plan, SessionOptions()) as session:
        delay.set(0)
        for turn, following, sample in zip(turns, [*turns[1:], 0], session.samples(), strict=True):
            taken[turn].add(sample)
            if turn != SLOWER:
                as_it_is.append(sample)
            # The next window is opened after this.
            slower_by_ns = 0
            if following == SLOWER:
                slower_by_ns = int(SLOWER_BY * mean_ns(_figures(as_it_is), load.call))
            delay.set(slower_by_ns)
    return taken


def _figures(samples: Iterable[Sample]) -> Figures:
    figures = Figures()
    for sample in samples:
        figures.add(sample)
    return figures


def mean_ns(figures: Figures, call: str) -> float:
    """How long the call took."""
    (found,) = (
        figure.estimate.value
        for key, figure in figures.figures().items()
        if key.name == f"{call}.mean"
    )
    return found


def claims(comparison: Comparison) -> list[str]:
    """What a comparison says has changed."""
    return [
        f"{change.threads} {change.name} {change.change or 0:+.1%}"
        for change in comparison.changes
        if change.kind in ("more", "less")
    ]


def try_out(name: str, runs: int) -> Outcomes:
    """Run the load, compare, and say of each run what came of it."""
    outcomes = Outcomes()
    order = Random(name)
    with tempfile.TemporaryDirectory() as made, ExitStack() as closing:
        folder = Path(made)
        load = LOADS[name](folder, closing)
        number = syscall_number(load.call)
        assert number is not None
        delay = closing.enter_context(delayed(compile_delay(folder), load.pid, number))
        # The first samples of a load that has just begun are of its beginning.
        captures(load, delay, order)
        for run in range(1, runs + 1):
            one, other, slow = captures(load, delay, order)
            changed, named = claims(compare(one, other)), claims(compare(other, slow))
            grew = mean_ns(slow, load.call) / mean_ns(other, load.call) - 1
            outcomes.runs += 1
            outcomes.same += not changed
            outcomes.named += any(f" {load.call}.mean +" in claim for claim in named)
            print(
                f"{name} {run}: the same: {', '.join(changed) or 'no change'};"
                f" {load.call} {grew:+.1%}: {', '.join(named) or 'no change'};"
                f" load average {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--load", choices=[*LOADS], action="append")
    args = parser.parse_args()
    start_log(-1)
    enough = True
    for name in args.load or LOADS:
        outcomes = try_out(name, args.runs)
        enough &= outcomes.enough
        print(
            f"{name}: no change in {outcomes.same} of {outcomes.runs} runs of the same load,"
            f" the slower call named in {outcomes.named} of {outcomes.runs}"
        )
    return os.EX_OK if enough else 1


if __name__ == "__main__":
    sys.exit(main())
