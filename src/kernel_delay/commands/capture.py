"""`kernel-delay capture`: measure what the kernel does to each thread of a process."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import accounting as accounting_options
from kernel_delay.commands.options import coverage as coverage_options
from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import pages as page_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import syscall_events as event_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import windows as window_options
from kernel_delay.errors import KernelDelayError, NoInputError, UsageError
from kernel_delay.host.signals import noted, noted_signal
from kernel_delay.reporters import print_message
from kernel_delay.reporters.progress import stack_progress, window_progress

if TYPE_CHECKING:
    from kernel_delay.capture.plan import WindowPlan
    from kernel_delay.capture.programs import Programs
    from kernel_delay.capture.session_options import WindowUpcalls
    from kernel_delay.host.program import StartedProgram
    from kernel_delay.host.target import Targets
    from kernel_delay.recording.writer import RecordingWriter

    OpenCounters = Callable[[int, Programs], WindowUpcalls | None]


RUNS_A_PROGRAM = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a capture."""
    parser.set_defaults(program=None)
    target_options.add_arguments(parser, several=True)
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="run the PROGRAM as this user (default: as the user of this command)",
    )
    window_options.add_arguments(parser)
    event_options.add_arguments(parser)
    accounting_options.add_arguments(parser)
    layout_options.add_arguments(parser)
    layout_options.add_color(parser)
    page_options.add_arguments(parser)
    parser.add_argument(
        "--skip-upcall-stats",
        action="store_true",
        help="do not count an ovs-vswitchd's upcalls, and do not read what packets it lost",
    )
    coverage_options.add_arguments(parser)
    output_options.add_json(parser)
    recording_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Find the processes, or run one, measure them, and report each window as it ends."""
    accounting_options.check(args)
    page_options.check(args)
    layout_options.check(args)
    if args.program is not None:
        return _run_program(args)
    if args.user is not None:
        raise UsageError("--user needs a PROGRAM that it runs: give one after --")
    try:
        targets = target_options.find_all_to_measure(args)
    except NoInputError:
        if not target_options.is_given(args):
            _propose(args)
        raise
    if targets.are_several:
        _check_several(args)
    target = targets.processes[0]
    windows = window_options.window_plan(args, target.pid, several=targets.are_several)
    _measure(args, targets, windows)
    return os.EX_OK


def _propose(args: argparse.Namespace) -> None:
    """Print what could be measured in place of Open vSwitch, for who sits at a terminal."""
    file = output_options.stdout()
    if not file.isatty():
        return
    from kernel_delay.host.losing import losing_processes
    from kernel_delay.reporters import losing

    layout = output_options.as_shown(layout_options.layout_of(args, named=False), file)
    file.write(losing.render(losing_processes(), layout))
    file.flush()


def _run_program(args: argparse.Namespace) -> int:
    """Run and measure a program; return its exit status."""
    from kernel_delay.host.program import StartedProgram
    from kernel_delay.host.target import Targets

    if not args.program:
        raise UsageError("there is no PROGRAM after --")
    if args.event_ns is not None:
        raise UsageError(
            "--syscall-events needs a running process, whose names are read first: start PROGRAM,"
            " then give --pid"
        )
    if args.children:
        _check_several(args)
    windows = window_options.program_plan(args)
    target_options.prepare_to_run(args)
    with StartedProgram(args.program, args.user) as program:
        # Its output is its own: what is reported goes elsewhere.
        os.dup2(2, 1)
        try:
            _measure(args, Targets((program.target,), args.children), windows, program)
        finally:
            # Also where the report can't be written: its terminal may be gone.
            if number := noted_signal():
                program.end_by(number)
        return program.wait()


def _measure(
    args: argparse.Namespace,
    targets: "Targets",
    windows: "WindowPlan",
    program: "StartedProgram | None" = None,
) -> None:
    """Measure, and report each window as it ends; `program` is to be executed."""
    events = event_options.event_plan(args)

    # Only a command that runs pays for what it imports.
    from kernel_delay.capture.plan import MOST_SLICES
    from kernel_delay.capture.session import Session, SessionOptions
    from kernel_delay.host.losing import RunDelays
    from kernel_delay.model import SkippedWindow

    with ExitStack() as stack:
        layout = layout_options.layout_of(args, named=len(targets.processes) > 1)
        header = recording_options.header_of("capture", *targets.processes)
        # A program's own output is not to be drawn upon.
        progress_file = sys.stderr if program is None else None
        outputs = (args.json_file, args.folded)
        reports = output_options.open_reports(*outputs, stack, layout, summary=args.summary)
        pages = page_options.open_pages(args, header)
        reports += [page.contents.add for page in pages]
        recording = recording_options.open_writer(args, lambda: header, stack)
        if recording is not None:
            reports.append(recording.sample)
        notify = page_options.noting(pages, recording_options.noting(recording))
        options = SessionOptions(
            events=events,
            open_upcall_counters=None if args.skip_upcall_stats else _upcall_counters(targets),
            packet_losses=not args.skip_upcall_stats,
            coverage=args.coverage,
            accounting=args.accounting,
            timeline=args.max_slices or MOST_SLICES if args.timeline else None,
            waker_stacks=args.wakers == "stacks",
            chains=args.chains,
            report_left=stack.enter_context(
                window_progress(
                    progress_file,
                    windows.sample_time_ns,
                    RunDelays(*targets.pids),
                )
            ),
            on_open=lambda epoch: None if program is None else program.go(),
        )
        progress = stack.enter_context(stack_progress(sys.stderr))
        session = stack.enter_context(Session(targets, windows, options, notify, progress))
        _keep_rights(args)
        head = output_options.Head(args, header)
        # One of the outputs: the others have the sample where it can't be printed.
        reports.insert(0, lambda _: head.print())
        measured = False
        try:
            for window in session.windows():
                measured = True
                if isinstance(window, SkippedWindow):
                    head.print()
                    if recording is not None:
                        recording.skipped(window)
                    for page in pages:
                        page.contents.skip()
                    output_options.report_skipped(window, args.json_file, args.folded)
                    continue
                # Not before the first window opens, which would wait for it.
                from kernel_delay.analysis.verdict import judge

                output_options.report_to_all(reports, judge(window))
            for path in _finish(args, recording, pages, is_cut_short=noted() and not measured):
                print_message(f"{os.fspath(path)!r} is left as it was: no sample was measured")
        except (KernelDelayError, OSError):
            # What can't be measured again is not lost for an output that failed, as a closed pipe.
            if measured:
                page_options.save(pages)
            raise


def _finish(
    args: argparse.Namespace,
    recording: "RecordingWriter | None",
    pages: list[page_options.Page],
    *,
    is_cut_short: bool,
) -> list[Path]:
    """End the recording and write the pages; return the files that are left as they were.

    Those are the ones of before, if a signal came before the first sample: `is_cut_short`.
    """
    left = []
    if recording is not None and not recording.finish_samples(interrupted=noted()):
        left.append(args.recording_file)
    if is_cut_short:
        return left + [path for path in (args.html, args.flamegraph) if path and path.exists()]
    for page in pages:
        page.finish()
    return left


def _keep_rights(args: argparse.Namespace) -> None:
    """Give up what was needed to attach alone."""
    from kernel_delay.host import privileges

    uses = [privileges.PROCESS]
    if args.event_ns is not None or args.wakers == "stacks" or args.chains:
        uses.append(privileges.NAMES)
    if args.program is not None:
        uses.append(privileges.PROGRAM)
    privileges.keep_only(uses, output_options.given(args))


def _check_several(args: argparse.Namespace) -> None:
    """Raise UsageError for what is of one process."""
    if args.event_ns is not None:
        raise UsageError("--syscall-events measures one process: name one, without --children")
    if args.coverage:
        raise UsageError("--coverage asks one process: name one, without --children")


def _upcall_counters(targets: "Targets") -> "OpenCounters | None":
    """Return what opens the counters of an ovs-vswitchd's upcalls; None for other processes."""
    from kernel_delay.host.kernel_names import OVS_VSWITCHD

    if targets.are_several or targets.processes[0].comm not in OVS_VSWITCHD:
        return None
    from kernel_delay.monitors.upcalls.counters import open_counters

    return open_counters
