"""python -m tests.watching.soak: does `kernel-delay watch` grow, beside a loop of many rounds?

Its memory, the memory of its programs' maps, its descriptors and its files are read all the time:
from a tenth of the time on they may not grow. Exits with 1 if one does, or if a record was lost.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.watching import growth
from tests.watching.watch import Watching, watch_of
from tests.workload import Workload, compile_workload

MOST_FILES = 50
LONG_MS = 150
THRESHOLD_S = 0.1
READINGS = 60

# Of what it said: the table at the end, and what it warns of.
LAST_LINES = 20


class Made(Struct):
    """What the loop says that it did."""

    rounds: int
    slow: int


class Reading(Struct):
    """What the process has at a time, and its folder: files, and their bytes."""

    process: growth.Reading
    files: int
    disk: int


FIGURES: dict[str, Callable[[Reading], float]] = {
    "MiB resident": lambda each: each.process.resident / growth.MIB,
    "MiB of its programs' maps": lambda each: each.process.maps / growth.MIB,
    "descriptors": lambda each: each.process.descriptors,
    "files": lambda each: each.files,
    "MiB of files": lambda each: each.disk / growth.MIB,
}


def main() -> int:
    """Run it, print the readings; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="N")
    seconds = parser.parse_args().minutes * 60
    workload = Workload([compile_workload("round_loop", "-lpthread"), 1, LONG_MS])
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        options = ("--threshold", str(THRESHOLD_S), "--timeline", "--max-files", str(MOST_FILES))
        try:
            with watch_of(workload.pid, Path(folder) / "records", *options) as watching:
                attached_s = time.monotonic() - began
                readings = _readings(watching, began, seconds)
                workload.send()
                made = msgspec.json.decode(workload.line(), type=Made)
                took_s = time.monotonic() - began
                # A signal might come as it ends by itself.
                assert watching.process.wait(60) == 0
                text = "\n".join([*watching.lines(), watching.said()])
        finally:
            workload.kill()
    print("\n".join(text.splitlines()[-LAST_LINES:]))
    print(f"{made.rounds:,} rounds in {took_s:,.0f} s, {made.rounds / took_s:,.0f} in a second")
    records = len(re.findall(r"^\d{4}-\d\d-\d\d ", text, flags=re.MULTILINE))
    print(f"{made.slow:,} slow ones, some in the {attached_s:.1f} s before it; {records:,} records")
    for line in _summary(readings):
        print(line)
    problems = _problems(readings, text)
    # The first comes at once, and each second another; the end of the last one no poll may tell.
    if records < made.slow - (int(attached_s) + 1) - 1:
        problems.append(f"{made.slow} rounds were slow, and there are {records} records")
    for problem in problems:
        print(f"WRONG: {problem}")
    return int(bool(problems))


def _readings(watching: Watching, began: float, seconds: float) -> "list[Reading]":
    found = []
    while (now := time.monotonic() - began) < seconds:
        found.append(_read(watching, now))
        _print(found[-1])
        time.sleep(seconds / READINGS)
    return found


def _read(watching: Watching, now_s: float) -> Reading:
    sizes = [_size(path) for path in watching.recordings()]
    return Reading(growth.read(watching.process.pid, now_s), len(sizes), sum(sizes))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it was one too many
        return 0


def _print(reading: Reading) -> None:
    files = f"{reading.files:4} files of {reading.disk / growth.MIB:5.1f} MiB"
    print(f"{growth.reading_text(reading.process)}  {files}", flush=True)


def _summary(readings: list[Reading]) -> Iterator[str]:
    """How each figure went, from the time on that it is warm."""
    warm = _warm(readings)
    for name, figure in FIGURES.items():
        first, *_, last = values = [figure(each) for each in warm]
        yield f"{name}: {first:,.1f} at first, {last:,.1f} at last, {max(values):,.1f} at most"


def _warm(readings: list[Reading]) -> list[Reading]:
    return readings[len(readings) // 10 :]


def _problems(readings: list[Reading], text: str) -> "list[str]":
    found = growth.problems([reading.process for reading in readings])
    if max(reading.files for reading in readings) > MOST_FILES + 1:
        found.append(f"there were more than {MOST_FILES} files")
    if readings[-1].files < 1:
        found.append("there were no records")
    if "no room" in text or "could not be written" in text:
        found.append("records were lost")
    return found


if __name__ == "__main__":
    sys.exit(main())
