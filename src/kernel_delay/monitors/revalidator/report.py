"""A line for each round as it ends, and at the end what they come to; or JSON."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.commands.options import outputs as output_options
from kernel_delay.monitors.monitor import Report
from kernel_delay.monitors.revalidator.events import RevalidatorRounds
from kernel_delay.ovs.revalidator import DatapathRounds, Revalidation, RevalidatorRound
from kernel_delay.reporters import revalidator as lines
from kernel_delay.reporters.terminal import has_columns, has_room_for_bars

if TYPE_CHECKING:
    from kernel_delay.model import RecordingHeader
    from kernel_delay.reporters.page.monitors import RoundsPage

BARS_FROM = 105
"""Columns that a terminal must have for bars of the rounds' lengths beside the table."""


class _Table:
    """The rounds' lines, with what stdout has columns for beside the first 80."""

    def __init__(self) -> None:
        file = output_options.stdout()
        polled = has_columns(file, len(lines.POLL_HEADER))
        self.header = lines.POLL_HEADER if polled else lines.HEADER
        self._line = lines.polled_round_line if polled else lines.round_line
        self._bars = has_room_for_bars(file, BARS_FROM)

    def line(self, rounds: DatapathRounds, found: RevalidatorRound) -> str:
        """A round that was taken."""
        bars = f" {lines.sparkline(rounds.recent)}" if self._bars else ""
        return self._line(rounds, found) + bars


class RevalidatorReport(Report[RevalidatorRounds, "RoundsPage"]):
    """Rounds of the revalidators."""

    LOST = MappingProxyType(
        {
            "revalidator_rounds": (
                "rounds were lost: this process was kept from its CPU for too long"
            ),
            "flow_results": "flows were not counted: their probe was hit while its program ran",
        }
    )

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
    ) -> None:
        """Start before the first."""
        super().__init__(args, header, stack)
        self._revalidation = Revalidation()
        self._only_changes: bool = args.compress_output
        self._table = _Table() if self._lines else None

    def take(self, record: RevalidatorRounds) -> RevalidatorRounds:
        """Count and print, up to as many rounds as were asked for."""
        for count, found in enumerate(record.rounds, 1):
            self._take(found)
            if self.most is not None and self._revalidation.rounds >= self.most:
                self.has_enough = True
                return RevalidatorRounds(record.rounds[:count])
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Sum up."""
        self._sum_up(lines.render(self._revalidation), self.missed_lines(missed))

    def _contents(self) -> "RoundsPage":
        from kernel_delay.reporters.page.monitors import RoundsPage

        return RoundsPage()

    def _take(self, found: RevalidatorRound) -> None:
        rounds = self._revalidation.of(found)
        before = rounds.last
        since = rounds.take(found)
        if self._json is not None:
            self._json(found)
        if not self._lines and self._page is None:
            return
        remarks = lines.remark_lines(found, since)
        if self._page is not None:
            self._page.contents.add(rounds.datapath, found, remarks)
        if self._table is None:
            return
        self._print_below(self._table.header)
        if before is None or before.tid != found.tid:
            print(lines.datapath_line(rounds, found))
        if self._only_changes and not remarks and before is not None and found.like(before):
            return
        print(self._table.line(rounds, found))
        for remark in remarks:
            print(remark)
