"""python -m tests.gains.run: stage causes, read what the verdict says of rounds without, remove it.

A prediction is right if rounds without the cause are within 10 % of it, or within the bounds that
the verdict has, by as much. Of two causes of the same rounds the one that is found to cost more
must gain more. Exits with 1 if anything else is so.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from kernel_delay.model import Finding, Sample
from tests import commands
from tests.gains.cases import CASES, PAIRS, Case, staged
from tests.verdicts.truth import NotHereError
from tests.watching.watch import samples_in, watch_of
from tests.workload import wait_until

ROUNDS = 12
TOLERANCE = 0.1

# A round is recorded from that length on: the shortest on a fast machine, too.
THRESHOLD_S = 0.02

# So often the cause comes and goes.
TURNS = 4

# What takes longer hangs.
ENDS_S = 60.0

# A signal ends it before.
MOST_WINDOWS = 100_000


class Result(Struct, frozen=True):
    """Rounds of one case, in ns: medians.

    Attributes:
        with_ns: With the cause.
        least_ns: What they take without it at least, as the verdict says. None: it does not say.
        most_ns: The same, at most.
        without_ns: Without the cause.
        rounds: How many rounds had a prediction.
        rules: The rules that were found first in the others.
    """

    with_ns: float
    least_ns: float | None
    most_ns: float | None
    without_ns: float
    rounds: int
    rules: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """What the prediction is worth."""
        bounds = [ns for ns in (self.least_ns, self.most_ns) if ns is not None]
        if not bounds:
            return "no prediction"
        least_ns, most_ns = min(bounds), max(bounds)
        is_figure = least_ns >= (1 - TOLERANCE) * most_ns
        if is_figure and abs(self.without_ns - most_ns) <= TOLERANCE * self.without_ns:
            return "within 10 %"
        is_above = self.least_ns is None or self.without_ns >= (1 - TOLERANCE) * self.least_ns
        is_below = self.most_ns is None or self.without_ns <= (1 + TOLERANCE) * self.most_ns
        return "within the bounds" if is_above and is_below else "MISSED"

    @property
    def gain_ns(self) -> float:
        """How much was gained."""
        return self.with_ns - self.without_ns

    @property
    def predicted_gain_ns(self) -> float:
        """How much was to be gained, at most."""
        bounds = [ns for ns in (self.least_ns, self.most_ns) if ns is not None]
        return self.with_ns - min(bounds, default=self.with_ns)


class Length(Struct, frozen=True):
    """A round by the victim's own clock."""

    is_on: bool
    start_ns: int
    ns: int


def measured(case: Case, rounds: int) -> Result:
    """Measure the victim with its cause and without it, by turns: the machine may become slower."""
    with_cause: list[Length] = []
    without: list[Length] = []
    measuring = _captured if case.is_triggered else _watched
    with staged(case) as victim, measuring(victim.pid, case.options) as samples:
        for _ in range(TURNS):
            remove = victim.apply()
            with_cause += _next_rounds(victim.lengths, rounds // TURNS)
            remove()
            without += _next_rounds(victim.lengths, rounds // TURNS)
    return _result(case, with_cause, samples, statistics.median(each.ns for each in without))


def _next_rounds(path: Path, rounds: int) -> list[Length]:
    """Wait for rounds that begin and end while all is as it is now."""
    begun = len(lengths_in(path))
    # To look more often would take of what is measured.
    wait_until(lambda: len(lengths_in(path)) > begun + rounds, "the rounds", every_s=0.1)
    # The first one began before.
    return lengths_in(path)[begun + 1 :]


@contextmanager
def _watched(pid: int, options: Sequence[str]) -> Iterator[list[Sample]]:
    """Watch the rounds of a process; they are there when the block is over."""
    samples: list[Sample] = []
    words = ("--threshold", f"{THRESHOLD_S}", "--no-stacks", *options)
    with (
        tempfile.TemporaryDirectory() as folder,
        watch_of(pid, Path(folder) / "records", *words) as watching,
    ):
        yield samples
        watching.end()
        samples += [each for path in watching.recordings() for each in samples_in(path)]


@contextmanager
def _captured(pid: int, options: Sequence[str]) -> Iterator[list[Sample]]:
    """The same of the time between two triggers in a library of the process."""
    samples: list[Sample] = []
    triggers = ("--start-trigger", "up:libc.so.6:srand48", "--stop-trigger", "up:libc.so.6:lrand48")
    with tempfile.TemporaryFile() as output:
        words = ("--pid", pid, *triggers, "--sample-count", MOST_WINDOWS, *options, "--json")
        process = commands.start(*words, stdout=output.fileno(), stderr=subprocess.DEVNULL)
        try:
            # The first one shows that it is attached.
            wait_until(lambda: _has_begun(process, output), "the first window", every_s=0.1)
            yield samples
            process.send_signal(signal.SIGINT)
            process.wait(ENDS_S)
        finally:
            process.kill()
        output.seek(0)
        decode: Any = msgspec.json.Decoder(Sample).decode
        samples += [decode(line) for line in output.read().splitlines()]


def _has_begun(process: commands.Process, output: IO[bytes]) -> bool:
    assert process.poll() is None, "kernel-delay has ended"
    return os.fstat(output.fileno()).st_size > 0


def lengths_in(path: Path) -> list[Length]:
    """What the victim wrote so far."""
    if not path.exists():
        return []
    # A line that it is writing has no end yet.
    lines = path.read_text().rpartition("\n")[0].splitlines()
    parts = [list(map(int, line.split())) for line in lines]
    return [Length(bool(is_on), start_ns, ns) for is_on, start_ns, ns in parts]


def _result(
    case: Case, lengths: Sequence[Length], samples: Sequence[Sample], without_ns: float
) -> Result:
    found: list[Finding] = []
    others: set[str] = set()
    for length in lengths:
        sample = _sample_of(length, samples)
        if sample is None:
            continue
        of_cause = [
            each
            for each in sample.verdict
            if each.rule in case.rules
            and (each.without_least_ns, each.without_most_ns) != (None, None)
        ]
        found += of_cause[:1]
        if not of_cause:
            others.update(each.rule for each in sample.verdict[:1])
    with_ns = statistics.median(each.ns for each in lengths)
    is_enough = 2 * len(found) > len(lengths)
    least_ns = _median([each.without_least_ns for each in found]) if is_enough else None
    most_ns = _median([each.without_most_ns for each in found]) if is_enough else None
    return Result(with_ns, least_ns, most_ns, without_ns, len(found), tuple(sorted(others)))


def _median(bounds: Sequence[int | None]) -> float | None:
    """The median, if most of them are known."""
    known = [ns for ns in bounds if ns is not None]
    return statistics.median(known) if 2 * len(known) > len(bounds) else None


def _sample_of(length: Length, samples: Sequence[Sample]) -> Sample | None:
    """The record of that round: its poll returned just before."""
    middle_ns = length.start_ns + length.ns // 2
    found = (each for each in samples if each.window.start_ns <= middle_ns < each.window.stop_ns)
    return next(found, None)


def main() -> int:
    """Run the cases, print the table, and return the exit status."""
    args = _arguments()
    names = [name for name in CASES if not args.only or name in args.only.split(",")]
    print(f"{'CAUSE':26} {'WITH':>9} {'AT LEAST':>9} {'AT MOST':>9} {'WITHOUT':>9}  OUTCOME")
    results: dict[str, Result] = {}
    refused = failed = 0
    for name in names:
        try:
            results[name] = measured(CASES[name], args.rounds)
        except NotHereError as error:
            refused += 1
            print(f"{name:26} can't be staged here: {error}", flush=True)
            continue
        except (AssertionError, OSError) as error:
            failed += 1
            print(f"{name:26} failed: {error}", flush=True)
            continue
        print(_line(name, results[name]), flush=True)
    return int(_summary(results, refused) > 0 or failed > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.gains.run", description=__doc__)
    parser.add_argument("--only", metavar="NAME,…", help="these cases alone")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds of each")
    return parser.parse_args()


def _line(name: str, result: Result) -> str:
    known = " (a known limit)" if CASES[name].is_limit and _is_wrong(result) else ""
    others = f"; found {', '.join(result.rules)}" if result.outcome == "no prediction" else ""
    least, most = ("-" if ns is None else _ms(ns) for ns in (result.least_ns, result.most_ns))
    return (
        f"{name:26} {_ms(result.with_ns):>9} {least:>9} {most:>9} {_ms(result.without_ns):>9}"
        f"  {result.outcome}{known}{others}"
    )


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.1f} ms"


def _is_wrong(result: Result) -> bool:
    return result.outcome in ("MISSED", "no prediction")


def _summary(results: dict[str, Result], refused: int) -> int:
    wrong = [name for name, result in results.items() if _is_wrong(result)]
    close = sum(result.outcome == "within 10 %" for result in results.values())
    unknown = [name for name in wrong if not CASES[name].is_limit]
    pairs = [pair for pair in PAIRS if all(name in results for name in pair)]
    disordered = [pair for pair in pairs if not is_in_order(*(results[name] for name in pair))]
    print(
        f"{len(results)} cases, {refused} refused here: {close} within 10 %,"
        f" {len(results) - close - len(wrong)} within the bounds, {len(wrong)} missed;"
        f" order right in {len(pairs) - len(disordered)} of {len(pairs)} pairs"
    )
    for first, second in disordered:
        print(f"WRONG ORDER: {first}, {second}")
    return int(bool(unknown or disordered))


def is_in_order(first: Result, second: Result) -> bool:
    """Whether the cause that is found to cost more gains more."""
    costs_more = first.predicted_gain_ns > second.predicted_gain_ns
    return costs_more == (first.gain_ns > second.gain_ns)


if __name__ == "__main__":
    sys.exit(main())
