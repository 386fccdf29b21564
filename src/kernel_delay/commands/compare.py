"""`kernel-delay compare`: what changed from one recording to another, beyond chance."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.errors import InputError, UsageError, naming
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from kernel_delay.analysis.comparison import Comparison
    from kernel_delay.analysis.conditions import Condition
    from kernel_delay.analysis.figures import Figures
    from kernel_delay.reporters.comparison import Side

CHANGED = 1
"""The exit code where a condition of --fail-if is met."""

# Which samples of a file: a.kdr@1-10.
_PART = re.compile(r"(?P<file>.+)@(?P<first>\d+)-(?P<last>\d+)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two sides, and what is told of them."""
    help_of_part = "; FILE@M-N is its samples M to N, the first being 1"
    parser.add_argument("before", metavar="BEFORE", help=f"a recording of capture{help_of_part}")
    parser.add_argument("after", metavar="AFTER", help="another, or other samples of the same")
    parser.add_argument(
        "--all", action="store_true", help="print all figures, not only those that changed"
    )
    output_options.add_json_alone(parser)
    page_options.add_html(
        parser, "write a page for a browser too, with what changed and all figures"
    )
    parser.add_argument(
        "--fail-if",
        dest="conditions",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 if a figure changed by more, and not by chance: as ready>+5%%, or"
        " 'handler*:futex.mean>+10%%' of threads of that name; may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    """Compare, report, and judge the conditions."""
    from kernel_delay.analysis.comparison import LEAST_SAMPLES, compare
    from kernel_delay.analysis.conditions import parse_condition

    conditions = [parse_condition(text) for text in args.conditions]
    sides = (args.before, args.after)
    output_options.refuse_inputs((_part(side)[0] for side in sides), (args.html,))
    before, before_figures, damage_before = _read(args.before)
    after, after_figures, damage_after = _read(args.after)
    comparison = compare(before_figures, after_figures)
    _report(args, before, after, comparison)
    if args.html is not None:
        _write_page(args.html, before, after, comparison)
    for damage in (damage_before, damage_after):
        if damage is not None:
            tell(str(damage))
    if damage_before or damage_after:
        return os.EX_DATAERR
    if conditions and min(before.samples, after.samples) < LEAST_SAMPLES:
        raise InputError(
            "--fail-if needs two samples of each side or more, to tell change from chance"
        )
    return _judge(conditions, comparison)


def _judge(conditions: "list[Condition]", comparison: "Comparison") -> int:
    from kernel_delay.analysis.conditions import met
    from kernel_delay.reporters.comparison import change_text

    found = met(conditions, comparison)
    for condition, change in found:
        tell(f"{condition.text}: {change_text(change)}")
    return CHANGED if found else os.EX_OK


def _report(
    args: argparse.Namespace, before: "Side", after: "Side", comparison: "Comparison"
) -> None:
    from kernel_delay.reporters import comparison as reporter
    from kernel_delay.reporters import json

    with naming("standard output"):
        if args.json:
            sys.stdout.writelines(json.chunks(reporter.document(before, after, comparison)))
        else:
            sys.stdout.writelines(reporter.lines(before, after, comparison, all_of_them=args.all))
        sys.stdout.flush()


def _write_page(path: Path, before: "Side", after: "Side", comparison: "Comparison") -> None:
    from kernel_delay.private_file import PrivateFile
    from kernel_delay.reporters.page.comparison import render

    page_options.write_page(PrivateFile(path), render(before, after, comparison))


def _read(argument: str) -> "tuple[Side, Figures, InputError | None]":
    """One side; and why it is not all of it, None if it is."""
    from kernel_delay.analysis.figures import Figures
    from kernel_delay.analysis.processes import merged
    from kernel_delay.model import Sample
    from kernel_delay.recording.reader import UntilDamage, open_recording
    from kernel_delay.reporters.comparison import Side

    name, first, last = _part(argument)
    figures = Figures()
    with open_recording(name) as recording:
        if recording.header.command != "capture":
            raise InputError(
                f"{recording.name!r} is of {recording.header.command}: only recordings of capture"
                " can be compared"
            )
        reading = UntilDamage(recording)
        # Of several processes those of one window are one: what is compared are windows.
        samples = merged(record for record in reading if isinstance(record, Sample))
        for number, sample in enumerate(samples, start=1):
            if number >= first and (last is None or number <= last):
                figures.add(sample)
    side = Side(argument, recording.header, figures.samples, figures.window_ns)
    return side, figures, reading.damage


def _part(argument: str) -> tuple[str, int, int | None]:
    """The file and which of its samples: from the first to the last, None for all that follow."""
    found = _PART.fullmatch(argument)
    if found is None or Path(argument).exists():
        return argument, 1, None
    first, last = int(found["first"]), int(found["last"])
    if not 1 <= first <= last:
        raise UsageError(f"{argument!r} names no samples: they are M-N, and the first is 1")
    return found["file"], first, last
