"""A page on the terminal that shows how the rounds of a process go, while it is watched."""

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.formatting import printable
from kernel_delay.host.signals import shutdown_text
from kernel_delay.model import RoundTotals, Sample, ThreadRounds
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.progress import WITHOUT_BAR
from kernel_delay.reporters.rounds import line, percentile_text

MOST_RECORDS = 8
MOST_THREADS = 20

_CONTINUED = "    "

# Of the terminal's lines; what is below is the records'.
_PART_OF_THREADS = 3


class LivePage:
    """Threads with their rounds, and the last records; drawn on request, by no thread."""

    def __init__(self, file: TextIO, title: str) -> None:
        """Draw on `file`, a terminal."""
        self._file = file
        self.contents = Contents(title)
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Begin to draw."""
        console = Console(file=self._file, highlight=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._closing.enter_context(shutdown_text(self._file.fileno(), WITHOUT_BAR))
        self._closing.enter_context(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        """Erase it."""
        self.close()

    def close(self) -> None:
        """Erase it: what is printed from now on stays."""
        self._closing.close()

    def add(self, sample: Sample) -> None:
        """Show one more record."""
        self.contents.add(sample)
        self._draw()

    def update(self, totals: RoundTotals) -> None:
        """Show how the threads go."""
        self.contents.update(totals)
        self._draw()

    def _draw(self) -> None:
        width, height = self._live.console.size
        self._live.update(Group(*self.contents.parts(width, height)), refresh=True)


class Contents:
    """What is on the page."""

    def __init__(self, title: str) -> None:
        """Nothing yet but its title."""
        self._title = title
        self._records: deque[str] = deque(maxlen=MOST_RECORDS)
        self._rows: tuple[tuple[ThreadRounds, float], ...] = ()
        self._totals: RoundTotals | None = None

    def add(self, sample: Sample) -> None:
        """Have one more record, in place of the oldest."""
        self._records.append(line(sample))

    def update(self, totals: RoundTotals) -> None:
        """Have how the threads go now."""
        self._rows = _with_rates(self._totals, totals)
        self._totals = totals

    def parts(self, width: int, height: int) -> list[Text | Table]:
        """Return it from the top to the bottom, for a terminal of that size.

        A record has as many lines as it takes; the oldest go where there is no room.
        """
        parts: list[Text | Table] = [Text(printable(self._title), "bold")]
        rows = self._rows[: max(1, min(MOST_THREADS, height // _PART_OF_THREADS))]
        if rows:
            parts.append(self._threads(rows))
        if self._totals is not None:
            reported = f"{self._totals.reported:,} records of {self._totals.long:,} long rounds"
            parts.append(Text(reported))
        # The heading of the threads, the line of those left out, and each other's one line.
        used = len(parts) + len(rows) + (len(self._rows) > len(rows))
        return parts + [Text(line) for line in self._lines(width, max(1, height - used))]

    def _lines(self, width: int, most: int) -> list[str]:
        """The newest records that fit so many lines, and of one at least its beginning."""
        lines: list[str] = []
        for record in reversed(self._records):
            wrapped = Layout(width).wrapped(record, further=_CONTINUED)
            if lines and len(lines) + len(wrapped) > most:
                break
            lines = wrapped + lines
        return lines[:most]

    def _threads(self, rows: Sequence[tuple[ThreadRounds, float]]) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("THREAD")
        for heading in ("TID", "ROUNDS/s", "P50", "P99", "LONGEST", "OPEN FOR"):
            table.add_column(heading, justify="right")
        time_ns = self._totals.time_ns if self._totals else 0
        for thread, rate in rows:
            table.add_row(*_cells(thread, rate, time_ns))
        if len(self._rows) > len(rows):
            table.add_row(f"and {len(self._rows) - len(rows)} more")
        return table


def _with_rates(
    before: RoundTotals | None, now: RoundTotals
) -> tuple[tuple[ThreadRounds, float], ...]:
    """Return the threads that have rounds, and how many a second; the longest first."""
    counts = {each.tid: sum(each.lengths) for each in before.threads} if before else {}
    seconds = (now.time_ns - before.time_ns) / 1e9 if before else 0.0
    found = []
    for each in now.threads:
        if each.tid and any(each.lengths):
            newer = sum(each.lengths) - counts.get(each.tid, sum(each.lengths))
            found.append((each, newer / seconds if seconds > 0 else 0.0))
    found.sort(key=lambda row: -row[0].longest_ns)
    return tuple(found)


def _cells(thread: ThreadRounds, rate: float, time_ns: int) -> tuple[str, ...]:
    open_for = ""
    if thread.open_since_ns is not None:
        open_for = length(max(0, time_ns - thread.open_since_ns))
    return (
        printable(thread.name),
        str(thread.tid),
        f"{rate:,.0f}",
        percentile_text(thread, 0.5),
        percentile_text(thread, 0.99),
        length(thread.longest_ns),
        open_for,
    )
