"""`kernel-delay capture`: measure what the kernel does to each thread of a process."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernel_delay.commands.options import accounting as accounting_options
from kernel_delay.commands.options import events as event_options
from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import windows as window_options
from kernel_delay.ending import noted
from kernel_delay.reporters.progress import stack_progress, window_progress

if TYPE_CHECKING:
    from kernel_delay.capture.programs import Programs
    from kernel_delay.capture.session import UpcallCounters
    from kernel_delay.host.target import ProcessTarget

    OpenCounters = Callable[[int, Programs], UpcallCounters | None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a capture."""
    target_options.add_arguments(parser)
    window_options.add_arguments(parser)
    event_options.add_arguments(parser)
    accounting_options.add_arguments(parser)
    layout_options.add_arguments(parser)
    page_options.add_arguments(parser)
    parser.add_argument(
        "--skip-upcall-stats",
        action="store_true",
        help="don't count the upcalls of an ovs-vswitchd's kernel datapath",
    )
    output_options.add_json(parser)
    recording_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Find the process, measure it, and report each window as it ends."""
    accounting_options.check(args)
    page_options.check(args)
    layout_options.check(args)

    target = target_options.find_to_measure(args)
    windows = window_options.window_plan(args, target.pid)
    events = event_options.event_plan(args)

    # Only a command that runs pays for what it imports.
    from kernel_delay.analysis.verdict import judge
    from kernel_delay.capture.session import Session, SessionOptions
    from kernel_delay.host.run_delays import RunDelays
    from kernel_delay.model import SkippedWindow

    with ExitStack() as stack:
        layout = layout_options.layout_of(args)
        header = recording_options.header_of("capture", target)
        outputs = (args.json_file, args.folded)
        reports = output_options.open_reports(*outputs, stack, layout, summary=args.summary)
        pages = page_options.open_pages(args, header)
        reports += [page.contents.add for page in pages]
        recording = recording_options.open_writer(args, lambda: header, stack)
        if recording is not None:
            reports.append(recording.sample)
        tell = page_options.noting(pages, recording_options.noting(recording))
        options = SessionOptions(
            events=events,
            open_upcall_counters=None if args.skip_upcall_stats else _upcall_counters(target),
            accounting=args.accounting,
            timeline=args.max_slices if args.timeline else None,
            waker_stacks=args.wakers == "stacks",
            tell_left=stack.enter_context(
                window_progress(sys.stderr, windows.sample_time_ns, RunDelays(target.pid))
            ),
        )
        progress = stack.enter_context(stack_progress(sys.stderr))
        session = stack.enter_context(Session(target, windows, options, tell, progress))
        head = output_options.Head(*outputs, header)
        for window in session.windows():
            head.print()
            if isinstance(window, SkippedWindow):
                if recording is not None:
                    recording.skipped(window)
                for page in pages:
                    page.contents.skip()
                output_options.report_skipped(window, args.json_file, args.folded)
                continue
            output_options.report_to_all(reports, judge(window))
        if recording is not None:
            recording.finish_samples(interrupted=noted())
        for page in pages:
            page.finish()
    return os.EX_OK


def _upcall_counters(target: "ProcessTarget") -> "OpenCounters | None":
    """Return what opens the counters of an ovs-vswitchd's upcalls; None for other processes."""
    from kernel_delay.host.target import DEFAULT_COMM

    if target.comm != DEFAULT_COMM:
        return None
    from kernel_delay.ovs.monitors.upcall_counters import open_counters

    return open_counters
