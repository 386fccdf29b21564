"""`kernel-delay top`: threads by lost time, live."""

import argparse
import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import accounting, arguments
from kernel_delay.commands.options import layout as layout_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.errors import NoInputError, UsageError
from kernel_delay.host.signals import noted, noted_signal
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.host.target import Targets
    from kernel_delay.reporters.top_terminal import Terminal
    from kernel_delay.reporters.top_view import Shown

MOST_THREADS = 1_024
"""Of all processes so many threads are measured: of those that lose most, and of the first."""

# As often as a window is over, without an option: whether others lose time now.
_SURVEY_EACH = 5
_MOST_WINDOWS = 1 << 62


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: which processes, and how often the screen is new."""
    target_options.add_arguments(parser, several=True, default="all processes, up to 1,024 threads")
    parser.add_argument(
        "-d",
        "--delay",
        dest="sample_time_ns",
        type=arguments.duration_ns,
        default="3",
        metavar="SECONDS",
        help="length of each window, and time from one screen to the next (default: %(default)s)",
    )
    accounting.add_chains(parser)
    layout_options.add_color(parser)


def run(args: argparse.Namespace) -> int:
    """Show what is measured, until `q`, a signal, or the exit of all processes asked for."""
    file = output_options.stdout()
    if not file.isatty() or not sys.stdin.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(
            "top needs a terminal that can be drawn on: use `capture --summary` or `watch`"
        )
    # Before the terminal is taken: what is wrong is printed where it stays.
    targets, others = _targets(args)
    from kernel_delay.reporters.layout import Layout, unstyled
    from kernel_delay.reporters.top_terminal import Terminal

    has_color = output_options.as_shown(Layout(color=args.color), file).style is not unstyled
    try:
        with Terminal(file, _record, has_color=has_color) as terminal:
            while _measure(args, targets, others, terminal) and not terminal.has_quit:
                # A Session refers to itself: what it has mapped would stay for minutes.
                gc.collect()
                targets, others = _targets(args)
    except OSError:
        # Its terminal is gone, and can't be given back.
        if noted_signal() == signal.SIGHUP:
            return 128 + signal.SIGHUP
        raise
    if not terminal.has_quit and not noted():
        print_message("all processes have exited")
    return os.EX_OK


def _targets(args: argparse.Namespace) -> "tuple[Targets, int]":
    """Return what is measured, and how many other processes there are."""
    if target_options.is_given(args):
        return target_options.find_all_to_measure(args), 0
    from kernel_delay.host.losing import losing_processes
    from kernel_delay.host.target import (
        ProcessTarget,
        Targets,
        find_child,
        process_ids,
        thread_count,
    )

    target_options.prepare(args)
    worst = [loss.pid for loss in losing_processes().processes]
    pids = dict.fromkeys((*worst, *process_ids()))
    found: list[ProcessTarget] = []
    threads = 0
    processes = [target for pid in pids if pid != os.getpid() and (target := find_child(pid))]
    for target in processes:
        threads += thread_count(target.pid)
        if found and threads > MOST_THREADS:
            break
        found.append(target)
    if not found:
        raise NoInputError("there is no other process")
    return Targets(tuple(found)), len(processes) - len(found)


def _measure(
    args: argparse.Namespace, targets: "Targets", others: int, terminal: "Terminal"
) -> bool:
    """Show window after window; return whether other processes are to be measured now."""
    from kernel_delay.analysis.processes import Windows
    from kernel_delay.analysis.verdict import Judge
    from kernel_delay.capture.plan import WindowPlan
    from kernel_delay.capture.session import Session, SessionOptions
    from kernel_delay.commands.options.recording import header_of
    from kernel_delay.host import privileges
    from kernel_delay.reporters.top_view import shown

    plan = WindowPlan(sample_time_ns=args.sample_time_ns, count=_MOST_WINDOWS)
    is_given = target_options.is_given(args)
    count, windows, judge = 0, Windows(), Judge()
    header = header_of("capture", *targets.processes)
    with Session(targets, plan, SessionOptions(chains=args.chains), terminal.say) as session:
        uses = [privileges.PROCESS]
        if not is_given:
            uses.append(privileges.FOLLOW)
        if args.chains:
            uses.append(privileges.NAMES)
        privileges.keep_only(uses, (Path.cwd(),))
        for sample in session.samples():
            for window in windows.take(judge.judge(sample)):
                terminal.show(shown(window, header, others))
                count += 1
                if not is_given and count % _SURVEY_EACH == 0 and _others_lose(targets):
                    return True
            if noted():
                return False
    return not is_given


def _others_lose(targets: "Targets") -> bool:
    from kernel_delay.host.losing import losing_processes

    # Those that are measured need not be read.
    return bool(losing_processes({*targets.pids, os.getpid()}).processes)


def _record(what: "Shown") -> str:
    """Write a recording of the window; return what to say of it. Raises OutputError."""
    from kernel_delay.recording.writer import RecordingWriter

    path = Path(f"top-{what.sample.window.collected_time:%Y%m%dT%H%M%S}.kdr")
    with RecordingWriter(path, what.header) as writer:
        for sample in what.samples:
            writer.sample(sample)
        writer.finish("done")
    return f"written: {path}, for `kernel-delay report`"
