"""Where the records of `kernel-delay watch` go: a recording, and a line, a page or JSON.

And the log whose lines stand beside them.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.errors import NoInputError, OutputError
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernel_delay.analysis.verdict.gain import RoundGains
    from kernel_delay.capture.rounds.watch import Watch
    from kernel_delay.host.target import ProcessTarget
    from kernel_delay.metrics.exporter import Exporter
    from kernel_delay.model import PacketLosses, PmdStats, RoundTotals, Sample
    from kernel_delay.openvswitch.coverage import CoverageReader
    from kernel_delay.openvswitch.log import OvsLog
    from kernel_delay.recording.directory import RecordingDirectory
    from kernel_delay.reporters.live import LivePage

# How often it is looked for a process that is to be followed, and into the log.
FOLLOW_S = 0.5

# To draw the page takes more than all else that is done ten times a second.
DRAW_S = 0.5

# A record of a time off the CPU has its line by then, and the threads were read after it.
ITERATION_AGE_S = 0.5


class WatchReport:
    """Where a record goes: its recording, and a line, a page or JSON.

    `exit_code` is the command's: a recording that could not be written does not end it.
    """

    def __init__(
        self, args: argparse.Namespace, stack: ExitStack, exporter: "Exporter | None"
    ) -> None:
        """Report where the arguments say; the stack closes what is opened."""
        self.exporter = exporter
        self.exit_code = os.EX_OK
        self.take_losses: Callable[[], PacketLosses] | None = None
        self.take_pmds: Callable[[], Mapping[int, PmdStats]] | None = None
        self.coverage: CoverageReader | None = None
        self._threshold_ns: int = args.threshold_ns
        self._pmd_gap_ns: int = args.pmd_gap_ns
        self._has_pmd_gaps: bool = args.start_trigger is None
        self._json = output_options.open_json(args.json_file, stack)
        self._shows_lines = args.json_file != output_options.STDOUT
        self._target: ProcessTarget | None = None
        self._folder: RecordingDirectory | None = None
        self._log: OvsLog | None = None
        self._page: LivePage | None = None
        self._unwritten = 0
        self._gains: RoundGains | None = None
        self._attached_ns = 0
        self._drawn = self._followed = 0.0

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
        self._gains = None
        self._page = None
        if self._shows_lines and sys.stdout is not None and sys.stdout.isatty():
            from kernel_delay.reporters.live import LivePage

            self._page = stack.enter_context(LivePage(sys.stdout, self._title()))

    def attached(self) -> None:
        """Say what is watched."""
        assert self._target is not None
        self._attached_ns = time.monotonic_ns()
        if self.exporter is not None:
            self.exporter.begin(self._target.pid, self.take_losses, self.take_pmds)
        if self._page is None:
            print_message(f"{self._title()}; Ctrl-C ends it")

    def _title(self) -> str:
        from kernel_delay.analysis.verdict.formatting import length
        from kernel_delay.host.kernel_names import OVS_VSWITCHD

        assert self._target is not None
        comm, pid = self._target.comm, self._target.pid
        pmds = ""
        if comm in OVS_VSWITCHD and self._has_pmd_gaps:
            pmds = f" (PMD threads: off their CPU for {length(self._pmd_gap_ns)})"
        return f"watching {comm} ({pid}) for rounds of {length(self._threshold_ns)}{pmds}"

    def tick(self, watch: "Watch") -> None:
        """Draw the page and read the log, now and then."""
        if self.exporter is not None:
            self.exporter.tick(watch)
        now = time.monotonic()
        if self._log is not None and now >= self._followed + FOLLOW_S:
            self._followed = now
            self._add_iterations(watch, ITERATION_AGE_S)
        if self._page is not None and now >= self._drawn + DRAW_S:
            self._drawn = now
            self._page.update(watch.totals())

    def _add_iterations(self, watch: "Watch", least_age_s: float) -> None:
        """Record the iterations that the log has and in which a PMD thread kept its CPU."""
        assert self._log is not None
        for sample in self._log.kept_iterations(watch.iterations.sample, least_age_s):
            self.add(sample, lambda: None)

    def add(self, sample: "Sample", meanwhile: "Callable[[], None]") -> None:
        """Judge, record and show one; `meanwhile` is called often while its log line is awaited."""
        from kernel_delay.analysis.verdict import judge
        from kernel_delay.analysis.verdict.gain import RoundGains
        from kernel_delay.reporters.rounds import line

        if self._log is not None and sample.window.ended_by != "iteration":
            sample = self._log.with_line(sample, meanwhile)
        if self.coverage is not None:
            sample = self.coverage.with_coverage(sample, meanwhile)
        judged = judge(sample)
        self._record(judged)
        if self._gains is None:
            self._gains = RoundGains(self._threshold_ns)
        self._gains.add(judged)
        if self.exporter is not None:
            self.exporter.add(judged)
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
            self.exit_code = error.exit_code
            if self._unwritten == 1:
                print_message(f"{error}; going on without, until it can be written again")

    def dump(self, totals: "RoundTotals") -> None:
        """Write what each thread does now to stderr: asked for by SIGUSR1."""
        from kernel_delay.reporters.rounds import dump_lines

        for text in dump_lines(totals):
            print_message(text)

    def finish(self, watch: "Watch") -> None:
        """Say how all rounds went."""
        from kernel_delay.reporters.rounds import (
            gain_lines,
            left_iteration_lines,
            left_lines,
            open_lines,
            summary_lines,
        )

        if self._log is not None:
            self._add_iterations(watch, 0)
        if self.exporter is not None:
            self.exporter.finish(watch)
        totals = watch.totals()
        if self._page is not None:
            self._page.close()
        to_reader: Callable[[str], None] = output_options.print_line
        if not self._shows_lines:
            to_reader = print_message
        for text in summary_lines(totals, self._unwritten):
            to_reader(text)
        if self._gains is not None:
            watched_ns = time.monotonic_ns() - self._attached_ns
            for text in gain_lines(self._gains, self._threshold_ns, watched_ns):
                to_reader(text)
        for text in open_lines(totals, self._threshold_ns):
            print_message(text)
        if self._log is not None:
            for text in left_lines(self._log.left(), self._log.left_related()):
                print_message(text)
            for text in left_iteration_lines(self._log.left_iterations()):
                print_message(text)


def log_of(args: argparse.Namespace, target: "ProcessTarget", stack: ExitStack) -> "OvsLog | None":
    """Open the log whose lines the records of a process have; None where there is none."""
    from kernel_delay.openvswitch.log import OvsLog, is_open_vswitch, log_file_of

    path, pid = args.ovs_log, None
    if path is None and args.start_trigger is None and is_open_vswitch(target.comm):
        path, pid = log_file_of(target.pid), target.pid
    if path is None:
        return None
    try:
        log = OvsLog(path, pid)
    except NoInputError as error:
        if pid is None:
            raise
        # Without it, all but its lines is there.
        print_message(f"{error}: records have no lines of the log")
        return None
    stack.callback(log.close)
    return log


def coverage_of(target: "ProcessTarget", stack: ExitStack) -> "CoverageReader":
    """Open what reads the counters of Open vSwitch that records have."""
    from kernel_delay.openvswitch.coverage import CoverageReader

    reader = CoverageReader(target.pid)
    stack.callback(reader.close)
    return reader
