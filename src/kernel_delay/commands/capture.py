"""`kernel-delay capture`: measure what the kernel does to each thread of a process."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from kernel_delay.commands.options import accounting as accounting_options
from kernel_delay.commands.options import events as event_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import windows as window_options
from kernel_delay.errors import OutputError, naming
from kernel_delay.reporters.messages import tell
from kernel_delay.reporters.progress import stack_progress

if TYPE_CHECKING:
    from kernel_delay.capture.programs import Programs
    from kernel_delay.capture.session import UpcallCounters
    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.model import Sample, SkippedWindow

    OpenCounters = Callable[[int, Programs], UpcallCounters | None]

STDOUT = "-"

Report = Callable[["Sample"], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a capture."""
    target_options.add_arguments(parser)
    window_options.add_arguments(parser)
    event_options.add_arguments(parser)
    accounting_options.add_arguments(parser)
    parser.add_argument(
        "--skip-upcall-stats",
        action="store_true",
        help="don't count the upcalls of an ovs-vswitchd's kernel datapath",
    )
    parser.add_argument(
        "--json",
        dest="json_file",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write a line of JSON per sample; without FILE, or with -, to stdout"
        " in place of the text",
    )


def run(args: argparse.Namespace) -> int:
    """Find the process, measure it, and report each window as it ends."""
    accounting_options.check(args)

    target = target_options.find_to_measure(args)
    windows = window_options.window_plan(args, target.pid)
    events = event_options.event_plan(args)

    # Only a command that runs pays for what it imports.
    from kernel_delay.analysis.verdict import judge
    from kernel_delay.capture.session import Session, SessionOptions
    from kernel_delay.model import SkippedWindow

    with ExitStack() as stack:
        show = {"summary": args.summary, "percentiles": args.percentiles}
        reports = open_reports(args.json_file, args.folded, stack, **show)
        options = SessionOptions(
            events=events,
            open_upcall_counters=None if args.skip_upcall_stats else _upcall_counters(target),
            accounting=args.accounting,
        )
        progress = stack.enter_context(stack_progress(sys.stderr))
        session = stack.enter_context(Session(target, windows, options, tell, progress))
        for window in session.windows():
            if isinstance(window, SkippedWindow):
                report_skipped(window, args.json_file)
                continue
            sample = judge(window)
            for report in reports:
                report(sample)
    return os.EX_OK


def _upcall_counters(target: "ProcessTarget") -> "OpenCounters | None":
    """Return what opens the counters of an ovs-vswitchd's upcalls; None for other processes."""
    from kernel_delay.host.target import DEFAULT_COMM

    if target.comm != DEFAULT_COMM:
        return None
    from kernel_delay.ovs.monitors.upcall_counters import open_counters

    return open_counters


def open_reports(
    json_file: str | None,
    folded_file: str | None,
    stack: ExitStack,
    *,
    summary: bool = False,
    percentiles: bool = False,
) -> list[Report]:
    """What takes each Sample to its outputs, at once; `stack` closes the files.

    Raises OutputError where an output can't be opened, before anything is
    measured for it.
    """
    reports = []
    if json_file == STDOUT:
        reports.append(_json_report(_stdout()))
    else:
        reports.append(_text_report(_stdout(), summary, percentiles))
        if json_file is not None:
            reports.append(_json_report(_open(json_file, stack)))
    if folded_file is not None:
        reports.append(_folded_report(_open(folded_file, stack)))
    return reports


def report_skipped(window: "SkippedWindow", json_file: str | None) -> None:
    """Tell a reader of a window that was too short; it is no sample, so no file has it."""
    from kernel_delay.reporters import text

    if json_file != STDOUT:
        _write(_stdout(), [text.render_skipped(window)])


def _open(path: str, stack: ExitStack) -> TextIO:
    try:
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115 (the stack closes it)
    except OSError as error:
        raise OutputError(f"can't write {path}: {error.strerror}") from None
    stack.callback(_close, file, path)
    return file


def _close(file: TextIO, path: str) -> None:
    with naming(path):
        file.close()


def _stdout() -> TextIO:
    # Python's stdout is None where the shell closed it (>&-).
    if sys.stdout is None:
        raise OutputError("standard output is closed: nothing could be reported")
    return sys.stdout


def _text_report(file: TextIO, summary: bool, percentiles: bool) -> Report:
    from kernel_delay.reporters import text

    heading: Callable[[str], str] = str
    if file.isatty():
        from kernel_delay.reporters.terminal import heading_style

        heading = heading_style(file)
    if summary:
        from kernel_delay.reporters.summary import render

        return lambda sample: _write(file, [render(sample, heading)])
    return lambda sample: _write(file, text.chunks(sample, heading, percentiles=percentiles))


def _json_report(file: TextIO) -> Report:
    from kernel_delay.reporters import json

    return lambda sample: _write(file, json.chunks(sample))


def _folded_report(file: TextIO) -> Report:
    from kernel_delay.reporters import folded

    return lambda sample: _write(file, folded.lines(sample))


def _write(file: TextIO, chunks: Iterable[str]) -> None:
    """Write and flush: what reads a pipe has each sample when it was taken."""
    with naming("standard output" if file is sys.stdout else file.name):
        file.writelines(chunks)
        file.flush()
