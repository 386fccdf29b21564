"""python -m tests.watching.run: a hundred slow rounds of a real Open vSwitch, by six causes.

Open vSwitch's own log is the oracle: of each line there must be one record, of its length, none
without a line, and what was done must be what the record names. On a busy machine a round may be
long of something else: schedstat tells (truth.py), and then the record must say that. What
`kernel-delay log` says of each line must be what its record says (log_causes.py). Open vSwitch is
Debian 13's, which counts its long rounds too. Exits with 1 if anything is not so.
"""

import argparse
import datetime
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import get_args

from kernel_delay.errors import KernelDelayError
from kernel_delay.openvswitch.log_lines import parse_line
from lab.binaries import Binaries
from lab.instance import Datapath
from tests import ovs_with_usdt
from tests.integration.long_rounds import MAIN, LongRounds, ovs_with_long_rounds
from tests.watching import log_causes
from tests.watching.causes import Cause, Causes, prepared
from tests.watching.comparison import Provoked, Result, compared, table
from tests.watching.truth import SchedStat, schedstat, truth_of
from tests.watching.watch import samples_in, watch_of

LINES = 100

# It provokes no more after the first, and stops waiting for what it provoked after the second.
PROVOKES_S = 540
ENDS_S = 600

# lib/coverage.h:COVERAGE_CLEAR_INTERVAL, and more (3.1 to 3.7).
COUNTS_S = 1.5

# As long the last records, and the last count, are waited for.
LAST_S = 20.0


class _TookTooLongError(Exception):
    """It is time to say what there is."""


def main() -> int:
    """Provoke, compare, say; the exit status."""
    options = _options()
    binaries = Binaries.under(options.ovs or ovs_with_usdt.build())
    with (
        tempfile.TemporaryDirectory() as folder,
        ovs_with_long_rounds(binaries, Path(folder), options.datapath) as rounds,
    ):
        rounds.ovs.add_bridge("brlong")
        records = options.records or Path(folder) / "records"
        result = _run(rounds, records, options.lines)
        log = rounds.ovs.folder / "ovs-vswitchd.log"
        if options.records:
            shutil.copy(log, records)
        samples = [sample for path in records.glob("*.kdr") for sample in samples_in(path)]
        from_log = log_causes.judged(log, samples)
    for line in (*table(result), *log_causes.table(from_log)):
        print(line)
    for problem in (*result.problems, *from_log.problems()):
        print(f"WRONG: {problem}")
    return int(bool(result.problems) or any(from_log.problems()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--lines", type=int, default=LINES, metavar="N")
    parser.add_argument(
        "--ovs", type=Path, metavar="ROOT", help="have the Open vSwitch below that folder"
    )
    parser.add_argument(
        "--datapath", choices=get_args(Datapath), default="netdev", help="system: the kernel's"
    )
    parser.add_argument("--records", type=Path, metavar="DIR", help="keep the records there")
    return parser.parse_args()


def _run(rounds: LongRounds, folder: Path, lines: int) -> Result:
    provoked: list[Provoked] = []
    problems: list[str] = []
    with (
        prepared(rounds) as causes,
        watch_of(rounds.ovs.pid, folder, "--timeline") as watching,
    ):
        _settle(rounds)
        seen = len(rounds.logged())
        try:
            with _within(ENDS_S):
                _provoke(rounds, causes, provoked, lines)
                _settle(rounds)
        except (_TookTooLongError, KernelDelayError, AssertionError) as error:
            problems.append(f"after {len(provoked)} causes: {error}")
        logged = [line for text in rounds.logged()[seen:] if (line := parse_line(text))]
        _wait(lambda: len(watching.recordings()) >= len(logged))
        counted = _counted(rounds)
        watching.end()
        print(watching.said(), end="", file=sys.stderr)
    samples = [sample for path in watching.recordings() for sample in samples_in(path)]
    result = compared(provoked, logged, samples)
    result.problems += [*problems, *_miscounted(rounds, counted)]
    return result


def _settle(rounds: LongRounds) -> None:
    """Have what was slow before be logged and counted: each thread adds its own once a second."""
    rounds.settle()
    time.sleep(COUNTS_S)
    rounds.settle()


def _miscounted(rounds: LongRounds, counted: int | None) -> Iterator[str]:
    """What is wrong with Open vSwitch's own count, since it was started."""
    lines, of_main = len(rounds.logged()), len(rounds.logged_of(MAIN))
    if counted is None:
        print("This Open vSwitch has no counter long_poll_interval.")
        return
    print(f"Open vSwitch itself counted {counted} long intervals, and wrote {lines} lines.")
    # A thread that sleeps for long has yet to add what it counted last.
    if not of_main <= counted <= lines:
        yield f"Open vSwitch counted {counted} long intervals, and wrote {lines} lines of them"


def _provoke(rounds: LongRounds, causes: Causes, provoked: list[Provoked], lines: int) -> None:
    """Provoke one cause after the other, until so many lines are logged."""
    until = time.monotonic() + PROVOKES_S
    before = len(rounds.logged_of(MAIN))
    while (logged := len(rounds.logged_of(MAIN)) - before) < lines:
        if time.monotonic() > until:
            raise _TookTooLongError(f"{logged} lines in {PROVOKES_S} s: the machine is too busy")
        cause = causes.causes[len(provoked) % len(causes.causes)]
        cause.prepare()
        provoked.append(_provoked(rounds, cause, causes.hog))
        print(f"{len(provoked)}: {cause.name}: {logged} lines before", file=sys.stderr)


def _provoked(rounds: LongRounds, cause: Cause, hog: int) -> Provoked:
    began = datetime.datetime.now(datetime.UTC)
    before: tuple[SchedStat, SchedStat] = schedstat(rounds.ovs.pid), schedstat(hog)
    cause.provoke()
    after = schedstat(rounds.ovs.pid), schedstat(hog)
    ended = datetime.datetime.now(datetime.UTC)
    own, of_hog = (now.since(then) for now, then in zip(after, before, strict=True))
    return Provoked(cause, began, ended, lambda length_ns: truth_of(length_ns, own, of_hog))


def _counted(rounds: LongRounds) -> int | None:
    """How many Open vSwitch counted; None if it does not."""
    if rounds.long_poll_intervals() is None:
        return None
    _wait(lambda: (rounds.long_poll_intervals() or 0) >= len(rounds.logged()))
    return rounds.long_poll_intervals()


def _wait(condition: Callable[[], bool]) -> None:
    """Wait for what may never come: what is not there then is told."""
    until = time.monotonic() + LAST_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.1)


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Have it end in that time, whatever it waits for."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _TookTooLongError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    sys.exit(main())
