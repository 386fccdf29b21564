"""python -m tests.comparisons.run: captures of the same load, and of one with a slower system call.

Each run is three captures: two of the load as it is, which shall be no change, and one in which
each call that answers a client takes a fifth longer, which shall be named. Exits with 1 unless that
is so in 19 of 20.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec

from kernel_delay.analysis.comparison import Comparison, compare
from kernel_delay.analysis.figures import Figures
from kernel_delay.host.syscalls import syscall_number
from kernel_delay.model import Sample
from kernel_delay.recording.reader import open_recording
from tests import commands
from tests.comparisons.loads import LOADS, Load
from tests.comparisons.slower import compile_delay, slower

RUNS = 20
LEAST_SHARE = 19 / 20
SLOWER_BY = 0.2

SAMPLES = ("--sample-count", "20", "--sample-time", "0.2")


class Outcomes(msgspec.Struct):
    """Of how many runs, in how many the same load was no change, and the slower call was named."""

    runs: int = 0
    same: int = 0
    named: int = 0

    @property
    def enough(self) -> bool:
        """Whether `compare` is as good as it says."""
        return min(self.same, self.named) >= LEAST_SHARE * self.runs


def capture(load: Load, folder: Path, delay_ns: int) -> Figures:
    """Capture the load, with each of its calls slower by `delay_ns`."""
    number = syscall_number(load.call)
    assert number is not None
    file = folder / "a.kdr"
    with slower(folder / "delay.bpf.o", load.pid, number, delay_ns):
        done = commands.run("--pid", load.pid, *SAMPLES, "-o", file, "--summary")
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures = Figures()
    with open_recording(file) as recording:
        for record in recording.read():
            if isinstance(record, Sample):
                figures.add(record)
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
    with tempfile.TemporaryDirectory() as made, ExitStack() as closing:
        folder = Path(made)
        compile_delay(folder)
        load = LOADS[name](folder, closing)
        # The first captures of a load that has just begun are of its beginning.
        capture(load, folder, 0)
        for run in range(1, runs + 1):
            one, other = (capture(load, folder, 0) for _ in range(2))
            delay_ns = int(SLOWER_BY * mean_ns(other, load.call))
            slow = capture(load, folder, delay_ns)
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
