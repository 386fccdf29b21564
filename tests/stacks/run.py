"""python -m tests.stacks.run: stacks of the events of real programs, beside elfutils'.

Two captures watch the same process at once. One is the tool's default: the kernel walks a stack by
tables or frame pointers, and copies it where the walk ends early. The other copies every stack.
A call that both have is one event, and its stack is the same in both: the walk's frames are held
against those that libdwfl finds in the copy, and against our own unwinder's of that copy. Copies
that have the same code addresses at the same depths are one stack, whose first copy is unwound.

libdwfl has the registers and the bytes of the copy, and looks for the files by itself. It has no
tables of generated code, such as Java's, and guesses there along frame pointers. Of Go it has
.debug_frame. No copy of a signal handler's alternate stack has the stack that was interrupted.

Exits with 1 if a stack that is whole by elfutils has other frames by us, or if an input of the
fuzzer is not bounded. What elfutils can't unwind is in the table, and is judged by nobody.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.stacks import hostile
from tests.stacks.captured import COPY, FRAME_POINTERS, TABLES
from tests.stacks.compared import Compared, compare
from tests.stacks.programs import PROGRAMS
from tests.verdicts.truth import NotHereError

EVENTS = 100_000
FIRST_S, LONGEST_S = 2.0, 20.0

TABLE_WIDTH = 200
"""Columns; a narrower terminal would cut the figures."""

MOST_DIFFERENCES = 6
"""Of a kind of threads, the most frequent first."""

COLUMNS = (
    "program",
    "threads",
    "events",
    "whole %",
    TABLES,
    FRAME_POINTERS,
    COPY,
    "whole by elfutils %",
    "same %",
    "same as our copy %",
    "stacks that are the same",
    "that differ",
)


def measured(name: str, events: int, most_s: float) -> dict[str, Compared]:
    """Start a program, and compare so many of its events, or what there is in that time."""
    kinds: dict[str, Compared] = {}
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory()))
        # nginx's worker gives up root's rights.
        folder.chmod(0o755)
        pid = PROGRAMS[name](folder, closing)
        files = Path(closing.enter_context(tempfile.TemporaryDirectory()))
        end, seconds, count = time.monotonic() + most_s, FIRST_S, 0
        while count < events and time.monotonic() < end:
            count += compare(pid, seconds, files, kinds)
            seconds = min(2 * seconds, LONGEST_S)
    return kinds


def percent(part: int, whole: int) -> str:
    """Print a share; 100.00 is all of them."""
    share = f"{100 * part / whole:.2f}"
    return share if part == whole or share != "100.00" else "99.99"


def table(found: Mapping[str, Mapping[str, Compared]]) -> Table:
    """Lay out a line for each kind of threads of each program."""
    lines = Table(*COLUMNS)
    for name, kinds in found.items():
        for kind, compared in sorted(kinds.items(), key=lambda each: -each[1].events):
            events, same = compared.events, sum(compared.stacks.values())
            lines.add_row(
                name,
                kind,
                f"{events:,}",
                percent(compared.whole.total(), events),
                *(f"{compared.ways[way]:,}" for way in (TABLES, FRAME_POINTERS, COPY)),
                percent(compared.whole_by_elfutils, events),
                percent(compared.same, events),
                percent(compared.same_as_copy, events),
                f"{same:,}",
                f"{len(compared.stacks) - same:,}",
            )
    return lines


def print_differences(console: Console, name: str, kinds: Mapping[str, Compared]) -> None:
    """Print what differs and where stacks end that are not whole, in how many events."""
    for kind, compared in kinds.items():
        for counted in (compared.differences, compared.ends):
            for what, count in counted.most_common(MOST_DIFFERENCES):
                console.print(f"{name}, {kind}: {count:,} events: {what}", markup=False)
        if compared.wrong:
            console.print(f"{name}, {kind}: WRONG by elfutils: {compared.wrong:,} events")


def main() -> int:
    """Return 0 if each stack that elfutils finds whole is the same."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--only", choices=PROGRAMS, action="append", help="these programs")
    arguments.add_argument("--events", type=int, default=EVENTS, help="of each program")
    arguments.add_argument("--seconds", type=float, default=300, help="at most, for each program")
    args = arguments.parse_args()
    console = Console(width=TABLE_WIDTH, highlight=False)
    found: dict[str, dict[str, Compared]] = {}
    for name in args.only or PROGRAMS:
        print(f"stacks: {name}", file=sys.stderr, flush=True)
        try:
            found[name] = measured(name, args.events, args.seconds)
        except NotHereError as error:
            console.print(f"{name}: not measured: {error}", markup=False)
    console.print(table(found))
    for name, kinds in found.items():
        print_differences(console, name, kinds)
    bounded = args.only or print_hostile(console)
    wrong = sum(each.wrong for kinds in found.values() for each in kinds.values())
    return 0 if bounded and not wrong else 1


def print_hostile(console: Console) -> bool:
    """Print what the fuzzer's files took; False if one was not bounded."""
    found = hostile.unwind()
    console.print(
        f"hostile .eh_frame: {found.files:,} files of the fuzzer, {found.given_up} given up,"
        f" the slowest after {found.slowest_s:.1f} s of at most {hostile.MOST_S}"
    )
    return found.bounded


if __name__ == "__main__":
    sys.exit(main())
