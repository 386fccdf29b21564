"""Each event of upcalls as it comes, and at the end what the upcalls cost; or JSON."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernel_delay.monitors.monitor import Report
from kernel_delay.monitors.upcalls.events import UpcallEvents
from kernel_delay.ovs.upcalls import Event, Joined, RecvUpcall, analyse, join
from kernel_delay.ovs.upcalls.port_names import PortName
from kernel_delay.reporters.messages import print_message
from kernel_delay.reporters.upcall_cost import (
    EVENT_HEADER,
    event_line,
    json_of,
    render,
    set_lines,
)

if TYPE_CHECKING:
    from kernel_delay.model import RecordingHeader
    from kernel_delay.reporters.page.monitors import CostsPage


class CostReport(Report[UpcallEvents, "CostsPage"]):
    """Keeps the events for the analysis, and prints each as it comes; then their costs."""

    def __init__(
        self,
        args: argparse.Namespace,
        header: "Callable[[], RecordingHeader | None]",
        stack: ExitStack,
        most: int,
    ) -> None:
        """Have none; at most `most` are analysed, if not fewer are asked for."""
        super().__init__(args, header, stack)
        self._args = args
        self._asked = self.most is not None
        self._most = self.most or most
        self._events: list[Event] = []

    def say(self, line: str) -> None:
        """Print a line, where there is text."""
        if self._text:
            print(line, flush=True)

    def begin(self) -> None:
        """Print what is above all events."""
        if self._lines:
            self.say(EVENT_HEADER)

    def take(self, record: UpcallEvents) -> UpcallEvents:
        """Keep and print, up to as many as are asked for."""
        before = len(self._events)
        self.take_all(record.events)
        if not self.has_enough:
            return record
        return UpcallEvents(tuple(self._events[before:]), record.since_epoch_ns)

    def take_all(self, events: Iterable[Event | PortName]) -> None:
        """The same with events that are in no record."""
        for event in events:
            if isinstance(event, PortName):
                continue
            self._events.append(event)
            if self._lines:
                print(event_line(event))
            if len(self._events) == self._most:
                self.has_enough = True
                if not self._asked:
                    print_message(
                        f"stopped after {self._most:,} events, the most that are analysed"
                    )
                return

    def finish(self, missed: Mapping[str, int]) -> None:
        """Join the events, and report what they cost."""
        self.say(f"- Analyzing results ({len(self._events)} events)...\n")
        joined = join(self._events, self._handlers())
        analysis = analyse(joined)
        if self._json is not None:
            for found in joined.sets:
                self._json(json_of(found))
        summary = render(joined, analysis, missed, self._args.histogram_buckets)
        self._print(joined, summary, missed)
        if self._page is not None:
            for found in analysis.sets:
                self._page.contents.add(found)
            # The summary's first table has what was missed.
            self._page.finish(summary, ())

    def _contents(self) -> "CostsPage":
        from kernel_delay.reporters.page.monitors import CostsPage

        return CostsPage()

    def _handlers(self) -> list[str] | None:
        """Whose upcalls are meant; names of none are printed, if there are others."""
        if self._args.handler_filter is None:
            return None
        names: list[str] = self._args.handler_filter.split(",")
        there = sorted({event.comm for event in self._events if isinstance(event, RecvUpcall)})
        if there and (strange := [repr(name) for name in names if name not in there]):
            print_message(
                f"no upcall was received by {', '.join(strange)}, but by {', '.join(there)}"
            )
        return names

    def _print(self, joined: Joined, summary: str, missed: Mapping[str, int]) -> None:
        if not self._text:
            if lost := sum(missed.values()):
                print_message(f"{lost:,} events were missed: upcalls lack events, or are not there")
            return
        if self._args.sets:
            for found in joined.sets:
                print("\n".join(set_lines(found)))
            print()
        print(summary)
