"""`kernel-delay capture`: measure what the kernel does to each thread of a process."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TextIO

from kernel_delay.commands import arguments
from kernel_delay.errors import OutputError
from kernel_delay.printable import printable

if TYPE_CHECKING:
    from kernel_delay.model import Sample

STDOUT = "-"

Report = Callable[["Sample"], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a capture; those with times leave nanoseconds in the namespace."""
    parser.add_argument(
        "-p",
        "--pid",
        type=arguments.process_id,
        metavar="PID",
        help="the process, or one of its threads (default: the one named ovs-vswitchd)",
    )
    parser.add_argument(
        "--sample-time",
        dest="sample_time_ns",
        type=arguments.duration_ns,
        default="0.5",
        metavar="SECONDS",
        help="how long to measure (default: %(default)s)",
    )
    parser.add_argument(
        "--sample-count",
        type=arguments.count,
        default=1,
        metavar="N",
        help="how many samples to take (default: %(default)s)",
    )
    parser.add_argument(
        "--sample-interval",
        dest="sample_interval_ns",
        type=arguments.pause_ns,
        default="0",
        metavar="SECONDS",
        help="pause between two samples (default: %(default)s)",
    )
    parser.add_argument(
        "--buffer-page-count",
        dest="buffer_pages",
        type=arguments.buffer_pages,
        default=1024,
        metavar="N",
        help="pages of BPF ring buffer, rounded up to a power of two (default: %(default)s)",
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
    # Only a command that runs pays for what it imports.
    from kernel_delay import preflight
    from kernel_delay.target import find_target

    target = find_target(args.pid)
    if target.note is not None:
        print(f"kernel-delay: {printable(target.note)}", file=sys.stderr)
    preflight.check()

    from kernel_delay.capture.plan import WindowPlan
    from kernel_delay.capture.session import Session, SessionOptions

    plan = WindowPlan(
        sample_time_ns=args.sample_time_ns,
        count=args.sample_count,
        interval_ns=args.sample_interval_ns,
    )
    with ExitStack() as stack:
        reports = open_reports(args.json_file, stack)
        options = SessionOptions(buffer_pages=args.buffer_pages, debug=args.debug)
        session = stack.enter_context(Session(target, plan, options))
        for sample in session.samples():
            for report in reports:
                report(sample)
    return os.EX_OK


def open_reports(json_file: str | None, stack: ExitStack) -> list[Report]:
    """What takes each Sample to its outputs, at once; `stack` closes the files.

    Raises OutputError where an output can't be opened, before anything is
    measured for it.
    """
    if json_file == STDOUT:
        return [_json_report(_stdout())]
    reports = [_text_report(_stdout())]
    if json_file is not None:
        try:
            file = open(json_file, "w", encoding="ascii")  # noqa: SIM115 (the stack closes it)
        except OSError as error:
            raise OutputError(f"can't write {json_file}: {error.strerror}") from None
        reports.append(_json_report(stack.enter_context(file)))
    return reports


def _stdout() -> TextIO:
    # Python's stdout is None where the shell closed it (>&-).
    if sys.stdout is None:
        raise OutputError("standard output is closed: nothing could be reported")
    return sys.stdout


def _text_report(file: TextIO) -> Report:
    from kernel_delay.reporters import text

    heading: Callable[[str], str] = str
    if file.isatty():
        from kernel_delay.reporters.terminal import heading_style

        heading = heading_style(file)
    return lambda sample: _write(file, text.render(sample, heading))


def _json_report(file: TextIO) -> Report:
    from kernel_delay.reporters import json

    # A window that was too short is a remark to a reader, but not a sample.
    return lambda sample: None if sample.window.skipped else _write(file, json.render(sample))


def _write(file: TextIO, rendered: str) -> None:
    """Write and flush: what reads a pipe has each sample when it was taken."""
    file.write(rendered)
    file.flush()
