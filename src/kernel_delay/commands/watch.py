"""`kernel-delay watch`: stay attached, and write down each round of a thread that is too long."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.commands.options import arguments
from kernel_delay.commands.options import coverage as coverage_options
from kernel_delay.commands.options import metrics as metrics_options
from kernel_delay.commands.options import outputs as output_options
from kernel_delay.commands.options import recording as recording_options
from kernel_delay.commands.options import rounds as round_options
from kernel_delay.commands.options import target as target_options
from kernel_delay.commands.options.rounds import MIB
from kernel_delay.commands.watch_report import FOLLOW_S, WatchReport, coverage_of, log_of
from kernel_delay.errors import NoInputError, UnavailableError, UsageError
from kernel_delay.host import signals
from kernel_delay.reporters import print_exit, print_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernel_delay.capture.programs import Programs
    from kernel_delay.capture.rounds.watch import Watch
    from kernel_delay.capture.session_options import UpcallsSoFar
    from kernel_delay.host.selection import Selection
    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.loader.waiting import DumpRequests
    from kernel_delay.recording.directory import RecordingDirectory

# It runs as a service.
READS_ENVIRONMENT = True

# Of the recordings in a folder.
MOST_MIB, MOST_FILES = 1024, 1000

# How long a process that has given its memory back may be there yet.
EXITING_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: what is long, and where it goes."""
    target_options.add_arguments(parser)
    round_options.add_arguments(parser)
    arguments.add_time(parser)
    arguments.add_count(parser, "records")
    parser.add_argument(
        "--ovs-log",
        type=Path,
        metavar="FILE",
        help="add Open vSwitch's own log line to each record (default: the log that an"
        " ovs-vswitchd has open)",
    )
    coverage_options.add_arguments(parser)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="when the process exits, wait for the next process of the same name, unit or"
        " --pid-file; with --pid, of the same name, executable and service",
    )
    parser.add_argument(
        "--pid-file", type=Path, metavar="FILE", help="watch the process whose PID is in FILE"
    )
    parser.add_argument(
        "--max-cpu",
        type=arguments.percentage,
        default=5,
        metavar="PERCENT",
        help="CPU limit of this command, in percent of one CPU. Above it, it stops taking"
        " wait chains, timelines, then stacks, then reads the threads less often (default:"
        " %(default)s)",
    )
    parser.add_argument(
        "--memory-limit",
        dest="memory_mib",
        type=arguments.count,
        default=512,
        metavar="MIB",
        help="memory limit of this command. Above it, it stops taking stacks (default:"
        " %(default)s)",
    )
    files = parser.add_argument_group("recordings")
    files.add_argument(
        "-o",
        "--output",
        dest="folder",
        type=arguments.path,
        metavar="DIR",
        help="write a recording of each long round into DIR, for `kernel-delay report`",
    )
    recording_options.add_redact(files, "write the recordings")
    files.add_argument(
        "--max-size",
        dest="max_mib",
        type=arguments.count,
        metavar="MIB",
        help=(f"remove the oldest recordings when all together exceed MIB (default: {MOST_MIB})"),
    )
    files.add_argument(
        "--max-age",
        dest="max_age_ns",
        type=arguments.age_ns,
        metavar="SECONDS",
        help="remove recordings that are older (default: keep them)",
    )
    files.add_argument(
        "--max-files",
        type=arguments.count,
        metavar="N",
        help=(f"remove the oldest recordings when there are more than N (default: {MOST_FILES})"),
    )
    output_options.add_json(parser)
    metrics_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Watch until the end, one process after the other, and say how all rounds of each went."""
    if (args.start_trigger is None) != (args.stop_trigger is None):
        raise UsageError("--start-trigger and --stop-trigger go together")
    limits = (args.max_mib, args.max_age_ns, args.max_files)
    if args.folder is None and any(limit is not None for limit in limits):
        raise UsageError("--max-size, --max-age and --max-files limit recordings: add -o DIR")
    recording_options.check_redact(args, args.folder)
    from kernel_delay.host.target import identity
    from kernel_delay.loader.waiting import DumpRequests

    # Who asks while it starts, or waits for a process, is answered later, and ends nothing.
    with DumpRequests() as requests, ExitStack() as stack:
        target = _first_target(args)
        left = _Left(args.time_ns, args.count)
        exporter = metrics_options.open_exporter(args, target.comm, stack)
        report = WatchReport(args, stack, exporter)
        # The process says it while it is there.
        next_ones = _next_ones(args, target)
        while True:
            before = identity(target.pid)
            ended = _watch(args, target, report, requests, left)
            if ended == "exit":
                print_exit(target.pid)
            elif ended == "gone":
                print_message(f"process {target.pid} exited before it could be watched")
            # A signal that came just then was noted, and would be waited for in vain.
            if ended not in ("exit", "gone") or not args.follow or signals.noted():
                return report.exit_code
            following = _next_target(args, before, next_ones, requests, left)
            if following is None:
                return report.exit_code
            target = following


class _Left:
    """What is left of --time and --count, of all processes together."""

    def __init__(self, time_ns: int | None, count: int | None) -> None:
        self._time_ns = time_ns
        self._count = count
        self._until_ns: int | None = None

    def time_ns(self) -> int | None:
        """Return how much time there is; None: no end. It begins with the first call."""
        if self._time_ns is None:
            return None
        now_ns = time.monotonic_ns()
        if self._until_ns is None:
            self._until_ns = now_ns + self._time_ns
        return max(0, self._until_ns - now_ns)

    def take_record(self) -> bool:
        """Count one record; return whether it was the last."""
        if self._count is None:
            return False
        self._count -= 1
        return self._count <= 0


def _watch(
    args: argparse.Namespace,
    target: "ProcessTarget",
    report: "WatchReport",
    requests: "DumpRequests",
    left: _Left,
) -> str:
    """Watch one process to its end; return what ended it.

    That is `gone` where it could not be watched any more, and --follow is given.
    """
    with ExitStack() as stack:
        try:
            watch = _attach(args, target, report, stack)
        except (NoInputError, UnavailableError, OSError):
            if not args.follow or not _is_gone(target.pid):
                raise
            return "gone"
        report.attached()
        ended = _follow(watch, report, requests, args, left)
        report.finish(watch)
    return ended


def _attach(
    args: argparse.Namespace, target: "ProcessTarget", report: "WatchReport", stack: ExitStack
) -> "Watch":
    # Only a command that runs pays for what it imports.
    from kernel_delay.capture.rounds.watch import Watch
    from kernel_delay.host.kernel_names import OVS_VSWITCHD

    request, room = round_options.request(args), args.memory_mib * MIB
    report.begin(target, _folder(args, target), log_of(args, target, stack), stack)
    report.coverage = coverage_of(target, stack) if args.coverage else None
    watch = stack.enter_context(
        Watch(
            target,
            round_options.plan(request, target, room),
            round_options.events(request, room),
            print_message,
            totals=report.exporter is not None,
            open_upcall_counters=_upcall_counters(report),
        )
    )
    report.take_losses = report.take_pmds = None
    if report.exporter is not None and target.comm in OVS_VSWITCHD:
        from kernel_delay.openvswitch.losses import LossCounters

        counters = LossCounters(target.pid, target.comm, pmds=True)
        stack.callback(counters.close)
        report.take_losses, report.take_pmds = counters.take, counters.pmds
    _keep_rights(args, needs_samples=watch.needs_samples)
    return watch


def _keep_rights(args: argparse.Namespace, *, needs_samples: bool) -> None:
    """Give up what was needed to attach alone, unless it is needed again."""
    from kernel_delay.host import privileges

    uses = [privileges.PROCESS]
    if args.stacks or args.chains:
        uses.append(privileges.NAMES)
    if args.stacks or needs_samples:
        uses.append(privileges.PROFILES)
    if args.follow:
        uses.append(privileges.FOLLOW)
    if args.metrics is not None or args.otlp is not None:
        uses.append(privileges.NETWORK)
    privileges.keep_only(uses, output_options.given(args))


def _is_gone(pid: int) -> bool:
    """Whether the process has exited, or does just now: its memory goes first."""
    from kernel_delay.host.target import living_thread

    until = time.monotonic() + EXITING_S
    while living_thread(pid) is not None:
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


def _upcall_counters(
    report: "WatchReport",
) -> "Callable[[int, Programs], UpcallsSoFar | None] | None":
    """Return what counts upcalls where these are reported."""
    from kernel_delay.monitors.upcalls.counters import open_counters

    return open_counters if report.exporter is not None else None


def _first_target(args: argparse.Namespace) -> "ProcessTarget":
    if args.pid_file is not None:
        from kernel_delay.host.target import find_in_file

        if target_options.is_given(args):
            raise UsageError("--pid-file says which process it is: leave the other options out")
        target = find_in_file(args.pid_file)
        if target is None:
            raise NoInputError(f"{args.pid_file} names no process that exists")
        args.pid = [target.pid]
    return target_options.find_to_measure(args)


def _next_ones(args: argparse.Namespace, first: "ProcessTarget") -> "Selection":
    """Return which processes may take the place of the first one; --pid says no more than it."""
    from kernel_delay.host.selection import Selection, service_of

    asked = target_options.selection(args)
    if asked.is_by_name:
        return asked
    if not asked.pids:
        return Selection(comm=first.comm)
    return Selection(comm=first.comm, unit=service_of(first.pid), exe=first.exe)


def _next_target(
    args: argparse.Namespace,
    before: tuple[int, int | None],
    wanted: "Selection",
    requests: "DumpRequests",
    left: _Left,
) -> "ProcessTarget | None":
    """Wait for the process that takes the place of one that exited; a signal ends the tool.

    None if the time is over before there is one.
    """
    from kernel_delay.host.selection import list_of
    from kernel_delay.host.target import find_in_file, identity

    where = f"in {args.pid_file}" if args.pid_file else f"of {wanted}"
    print_message(f"waiting for a process {where}")
    reported_of_many = False
    while (left_ns := left.time_ns()) != 0:
        time.sleep(FOLLOW_S if left_ns is None else min(FOLLOW_S, left_ns / 1e9))
        if requests.take():
            print_message(f"still waiting for a process {where}")
        if args.pid_file:
            there = find_in_file(args.pid_file)
            found = [] if there is None else [there]
        else:
            found = _there(wanted)
        found = [target for target in found if identity(target.pid) != before]
        if len(found) == 1:
            return found[0]
        if found and not reported_of_many:
            reported_of_many = True
            print_message(
                f"{len(found)} processes are there: {list_of(found)}; waiting until one is left"
            )
    return None


def _there(wanted: "Selection") -> "list[ProcessTarget]":
    from kernel_delay.host.selection import find_all

    try:
        return list(find_all(wanted))
    except (NoInputError, UsageError):
        return []


def _folder(args: argparse.Namespace, target: "ProcessTarget") -> "RecordingDirectory | None":
    if args.folder is None:
        return None
    from kernel_delay.recording.directory import Limits, RecordingDirectory
    from kernel_delay.recording.header import new_header

    most_bytes = (args.max_mib or MOST_MIB) * MIB
    limits = Limits(most_bytes, args.max_age_ns, args.max_files or MOST_FILES)
    header = new_header("watch", sys.argv[1:], target)
    return RecordingDirectory(args.folder, header, limits, redact=args.redact, report=print_message)


def _follow(
    watch: "Watch",
    report: "WatchReport",
    requests: "DumpRequests",
    args: argparse.Namespace,
    left: _Left,
) -> str:
    """Take records until the end; return what ended it."""
    from kernel_delay.capture.rounds.budget import CpuBudget, MemoryBudget

    budget = CpuBudget(args.max_cpu / 100)
    memory = MemoryBudget(args.memory_mib * MIB)

    def tick() -> None:
        if budget.is_exceeded():
            _save_cpu(watch, args.max_cpu)
            budget.restart()
        if (excess := memory.excess()) is not None and not _save_memory(watch, excess):
            memory.give_up()
        report.tick(watch)
        if requests.take():
            report.dump(watch.totals())

    for sample in watch.rounds(tick, left.time_ns()):
        report.add(sample, watch.keep_looking)
        if left.take_record():
            return "count"
    return watch.ended


def _save_cpu(watch: "Watch", percent: int) -> None:
    given_up = watch.give_up()
    if given_up is not None:
        print_message(
            f"this took more than {percent} % of a CPU (--max-cpu): going on without {given_up}"
        )


def _save_memory(watch: "Watch", excess: int) -> bool:
    """Give something up, as it has `excess` bytes; False if there is nothing more."""
    said = f"this has {excess // MIB} MiB of memory, more than --memory-limit"
    if watch.give_up_stacks():
        print_message(f"{said}: going on without stacks")
        return True
    print_message(f"{said}, and nothing more to do without")
    return False
