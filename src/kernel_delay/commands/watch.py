"""`kernel-delay watch`: stay attached, and write down each round of a thread that is too long."""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options import windows as window_options
from kernel_delay.errors import NoInputError, OutputError, UsageError
from kernel_delay.reporters.messages import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernel_delay.capture.plan import EventPlan, RoundPlan
    from kernel_delay.capture.rounds.watch import Watch
    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.model import RoundTotals, Sample
    from kernel_delay.ovs.log import OvsLog
    from kernel_delay.recording.directory import RecordingDirectory
    from kernel_delay.reporters.live import LivePage

MIB = 1 << 20

# How often it is looked for a process that is to be followed.
FOLLOW_S = 0.5

# To draw the page takes more than all else that is done ten times a second.
DRAW_S = 0.5

# A shorter call is none that makes a round long, however low the threshold.
SHORTEST_CALL_NS = 1_000_000

# Of all rounds that are open, as long as it is not known which of them are long.
MOST_EVENTS = 10_000
MOST_STACKS = 2_000
BUFFER_PAGES = 2048


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: what is long, and where it goes."""
    target_options.add_arguments(parser)
    parser.add_argument(
        "--threshold",
        dest="threshold_ns",
        type=arguments.pause_ns,
        default="1",
        metavar="SECONDS",
        help="a round of at least that length is recorded (default: %(default)s, as Open vSwitch"
        " logs it)",
    )
    parser.add_argument(
        "--min-gap",
        dest="gap_ns",
        type=arguments.pause_ns,
        default="0.1",
        metavar="SECONDS",
        help="after a record, only longer rounds make others for so long; those that make none are"
        " counted (default: %(default)s)",
    )
    parser.add_argument(
        "--start-trigger",
        metavar="TRIGGER",
        help="a round begins with a hit of TRIGGER, in place of a poll's return; in user code",
    )
    parser.add_argument(
        "--stop-trigger", metavar="TRIGGER", help="and it ends with one of this, in the same thread"
    )
    arguments.add_time(parser)
    arguments.add_count(parser, "records")
    parser.add_argument(
        "--no-stacks",
        dest="stacks",
        action="store_false",
        help="don't take stacks: of calls that took a tenth of the threshold, and of what a thread"
        " runs whose round is as old",
    )
    parser.add_argument(
        "--ovs-log",
        type=Path,
        metavar="FILE",
        help="put Open vSwitch's own log line to each record (default: the log that the process"
        " has open, if that is ovs-vswitchd)",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="when the process exits, wait for the next one of its name, or of --pid-file",
    )
    parser.add_argument(
        "--pid-file", type=Path, metavar="FILE", help="watch the process whose PID is in FILE"
    )
    parser.add_argument(
        "--max-cpu",
        type=arguments.percentage,
        default=5,
        metavar="PERCENT",
        help="of one CPU, for this command itself: over it, it does without stacks, and then looks"
        " at the threads less often (default: %(default)s)",
    )
    files = parser.add_argument_group("recordings")
    files.add_argument(
        "-o",
        "--output",
        dest="folder",
        type=Path,
        metavar="DIR",
        help="write a recording of each long round into DIR, for `kernel-delay report`",
    )
    files.add_argument(
        "--max-size",
        dest="max_mib",
        type=arguments.count,
        default=1024,
        metavar="MIB",
        help="remove the oldest when there are more than so many MiB (default: %(default)s)",
    )
    files.add_argument(
        "--max-age",
        dest="max_age_ns",
        type=arguments.duration_ns,
        metavar="SECONDS",
        help="remove what is older (default: keep it)",
    )
    files.add_argument(
        "--max-files",
        type=arguments.count,
        default=1000,
        metavar="N",
        help="remove the oldest when there are more than N (default: %(default)s)",
    )
    output_options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Watch until the end, one process after the other, and say how all rounds of each went."""
    if (args.start_trigger is None) != (args.stop_trigger is None):
        raise UsageError("--start-trigger and --stop-trigger go together")
    target = _first_target(args)
    with ExitStack() as stack:
        report = _Report(args, stack)
        while True:
            ended = _watch(args, target, report)
            if ended == "exit":
                tell(f"process {target.pid} exited")
            if ended != "exit" or not args.follow:
                return os.EX_OK
            target = _next_target(args, target)


def _watch(args: argparse.Namespace, target: "ProcessTarget", report: "_Report") -> str:
    """Watch one process to its end; return what ended it."""
    # Only a command that runs pays for what it imports.
    from kernel_delay.capture.rounds.watch import Watch

    with ExitStack() as stack:
        report.begin(target, _folder(args, target), _log(args, target, stack), stack)
        watch = stack.enter_context(Watch(target, _plan(args, target), _events(args), tell))
        report.attached()
        ended = _follow(watch, report, args)
        report.finish(watch.totals())
    return ended


def _first_target(args: argparse.Namespace) -> "ProcessTarget":
    if args.pid_file is not None:
        from kernel_delay.host.target import find_in_file

        target = find_in_file(args.pid_file)
        if target is None:
            raise NoInputError(f"{args.pid_file} names no process that is there")
        args.pid = target.pid
    return target_options.find_to_measure(args)


def _next_target(args: argparse.Namespace, before: "ProcessTarget") -> "ProcessTarget":
    """Wait for the process that takes the place of one that exited; a signal ends the tool."""
    from kernel_delay.host.target import find_in_file, find_named

    where = f"in {args.pid_file}" if args.pid_file else f"named {before.comm}"
    tell(f"waiting for a process {where}")
    while True:
        time.sleep(FOLLOW_S)
        found = find_in_file(args.pid_file) if args.pid_file else find_named(before.comm)
        if found is not None and found.pid != before.pid:
            return found


def _plan(args: argparse.Namespace, target: "ProcessTarget") -> "RoundPlan":
    from kernel_delay.capture.plan import RoundPlan
    from kernel_delay.ovs.log import ROUND_POLLS, is_open_vswitch

    if args.start_trigger is not None:
        start = window_options.trigger_points(args.start_trigger, target.pid)
        stop = window_options.trigger_points(args.stop_trigger, target.pid)
        plan = RoundPlan(args.threshold_ns, args.gap_ns, start=start, stop=stop)
        _check_triggers(plan)
        return plan
    if is_open_vswitch(target.comm):
        return RoundPlan(args.threshold_ns, args.gap_ns, ROUND_POLLS)
    return RoundPlan(args.threshold_ns, args.gap_ns)


def _check_triggers(plan: "RoundPlan") -> None:
    """Raise UsageError for one in the kernel: it may be hit while a thread's time is noted."""
    from kernel_delay.probes.attach_points import UserProbe

    for trigger in (plan.start, plan.stop):
        if trigger and not all(isinstance(point, UserProbe) for point in trigger.points):
            raise UsageError(f"{trigger.text} is in the kernel: rounds are between user code")


def _events(args: argparse.Namespace) -> "EventPlan | None":
    from kernel_delay.capture.plan import EventPlan

    if not args.stacks:
        return None
    shortest_ns = max(args.threshold_ns // 10, SHORTEST_CALL_NS)
    return EventPlan(
        shortest_ns, max_events=MOST_EVENTS, max_stacks=MOST_STACKS, buffer_pages=BUFFER_PAGES
    )


def _folder(args: argparse.Namespace, target: "ProcessTarget") -> "RecordingDirectory | None":
    if args.folder is None:
        return None
    from kernel_delay.recording.directory import Limits, RecordingDirectory
    from kernel_delay.recording.header import new_header

    limits = Limits(args.max_mib * MIB, args.max_age_ns, args.max_files)
    header = new_header("watch", sys.argv[1:], target)
    return RecordingDirectory(args.folder, lambda: header, limits)


def _log(args: argparse.Namespace, target: "ProcessTarget", stack: ExitStack) -> "OvsLog | None":
    from kernel_delay.ovs.log import OvsLog, is_open_vswitch, log_file_of

    path = args.ovs_log
    if path is None and args.start_trigger is None and is_open_vswitch(target.comm):
        path = log_file_of(target.pid)
    if path is None:
        return None
    log = OvsLog(path)
    stack.callback(log.close)
    return log


def _follow(watch: "Watch", report: "_Report", args: argparse.Namespace) -> str:
    """Take records until the end; return what ended it."""
    from kernel_delay.capture.rounds.budget import CpuBudget
    from kernel_delay.loader.requests import DumpRequests

    budget = CpuBudget(args.max_cpu / 100)
    with DumpRequests() as requests:

        def tick() -> None:
            if budget.is_exceeded():
                _save_cpu(watch, args.max_cpu)
                budget.restart()
            report.tick(watch)
            if requests.take():
                report.dump(watch.totals())

        for records, sample in enumerate(watch.rounds(tick, args.time_ns), start=1):
            report.add(sample)
            if args.count is not None and records >= args.count:
                return "count"
    return watch.ended


def _save_cpu(watch: "Watch", percent: int) -> None:
    given_up = watch.give_up()
    if given_up is not None:
        tell(f"this took more than {percent} % of a CPU (--max-cpu): going on without {given_up}")


class _Report:
    """Where a record goes: its recording, and a line, a page or JSON."""

    def __init__(self, args: argparse.Namespace, stack: ExitStack) -> None:
        self._threshold_ns: int = args.threshold_ns
        self._json = output_options.open_json(args.json_file, stack)
        self._shows_lines = args.json_file != output_options.STDOUT
        self._target: ProcessTarget | None = None
        self._folder: RecordingDirectory | None = None
        self._log: OvsLog | None = None
        self._page: LivePage | None = None
        self._unwritten = 0
        self._drawn = 0.0

    def begin(
        self,
        target: "ProcessTarget",
        folder: "RecordingDirectory | None",
        log: "OvsLog | None",
        stack: ExitStack,
    ) -> None:
        """Report of this process from now on; `stack` ends the page."""
        self._target, self._folder, self._log = target, folder, log
        self._unwritten = 0
        self._page = None
        if self._shows_lines and sys.stdout is not None and sys.stdout.isatty():
            self._page = stack.enter_context(_live_page(sys.stdout, self._title()))

    def attached(self) -> None:
        """Say what is watched."""
        if self._page is None:
            tell(f"{self._title()}; Ctrl-C ends it")

    def _title(self) -> str:
        from kernel_delay.analysis.verdict.words import length

        assert self._target is not None
        threshold = length(self._threshold_ns)
        return f"watching {self._target.comm} ({self._target.pid}) for rounds of {threshold}"

    def tick(self, watch: "Watch") -> None:
        """Draw the page, now and then."""
        now = time.monotonic()
        if self._page is not None and now >= self._drawn + DRAW_S:
            self._drawn = now
            self._page.update(watch.totals())

    def add(self, sample: "Sample") -> None:
        """Judge, record and show one."""
        from kernel_delay.analysis.verdict import judge
        from kernel_delay.reporters.rounds import line

        judged = judge(sample if self._log is None else self._log.with_line(sample))
        self._record(judged)
        if self._json is not None:
            self._json(judged)
        if self._page is not None:
            self._page.add(judged)
        elif self._shows_lines:
            output_options.print_line(line(judged))

    def _record(self, sample: "Sample") -> None:
        """Write its recording; a full disk keeps this one from being kept, and nothing else."""
        if self._folder is None:
            return
        try:
            self._folder.add(sample)
        except OutputError as error:
            self._unwritten += 1
            if self._unwritten == 1:
                tell(f"{error}; going on without, until there is room")

    def dump(self, totals: "RoundTotals") -> None:
        """Write what each thread does now to stderr: asked for by SIGUSR1."""
        from kernel_delay.reporters.rounds import dump_lines

        for text in dump_lines(totals):
            tell(text)

    def finish(self, totals: "RoundTotals") -> None:
        """Say how all rounds went."""
        from kernel_delay.reporters.rounds import summary_lines

        if self._page is not None:
            self._page.close()
        to_reader: Callable[[str], None] = output_options.print_line
        if not self._shows_lines:
            to_reader = tell
        for text in summary_lines(totals, self._unwritten):
            to_reader(text)
        for left in self._log.left() if self._log is not None else ():
            tell(
                f"Open vSwitch logged a round of {left.length_ms} ms of"
                f" {left.thread or 'its main thread'} at {left.time:%H:%M:%S} UTC: there is no"
                " record of that"
            )


def _live_page(file: TextIO, title: str) -> "LivePage":
    from kernel_delay.reporters.live import LivePage

    return LivePage(file, title)
