"""What is on the screen: of a window's Samples, by the keys that were pressed and the size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from kernel_delay.analysis.states import lost_ns, states, worst_first
from kernel_delay.formatting import printable
from kernel_delay.model import Finding, RecordingHeader, Sample, Thread
from kernel_delay.reporters.block import block
from kernel_delay.reporters.layout import Layout, Role
from kernel_delay.reporters.overview import HEADINGS, LEGEND, LETTERS, bar, shares, whole_ns
from kernel_delay.reporters.processes import Processes, together
from kernel_delay.reporters.remarks import verdict

Action = Literal["quit", "record", "suspend"]
"""What a key asks for that is not of the view."""

Line = tuple[str, Role | Literal["selected"] | None]
"""A line, and what it is to its reader."""

KEYS = "q quit  ↑↓ select  ⏎ tables  / filter  s sort  Space freeze  w record  ? help"
HELP = (
    "↑ ↓ j k        select a thread          Enter   its tables, and back",
    "s              sort by the next column  /       show names with a text; Esc: all",
    "Space          freeze, and go on        w       write a recording of this window",
    "q, Ctrl-C      quit                     ?       this help, and back",
)

# Narrower, a bar says more than the shares do.
_COLUMNS_FOR_SHARES = 100
# Wider, a row has the cause of its thread too.
_COLUMNS_FOR_CAUSES = 150
_NAME_WIDTH = 40
_PART_OF_CAUSES = 3

_ENTER, _ESCAPE, _BACKSPACE, _SUSPEND = ("\r", "\n"), "\x1b", ("\x7f", "\b"), "\x1a"


class Row:
    """A thread in the table. What a row says is made when it is shown: most are below the screen.

    Attributes:
        thread: The thread.
    """

    def __init__(
        self, thread: Thread, finding: Finding | None, window_ns: int, processes: Processes
    ) -> None:
        """Be of that thread; `finding` is its worst one, `window_ns` the length of the window."""
        self.thread = thread
        self._finding = finding
        self._window_ns = window_ns
        self._processes = processes

    @cached_property
    def name(self) -> str:
        """What it is called, with its process where there are several."""
        if self._processes:
            return self._processes.named(self.thread, _NAME_WIDTH)
        return printable(self.thread.name)

    @cached_property
    def lost_ns(self) -> int:
        """What it lost of the window: by its account, or by a finding that says more."""
        lost = lost_ns(self.thread)
        if self._finding is None or self._finding.remark:
            return lost
        return max(lost, round(self._finding.share * self._window_ns))

    @cached_property
    def parts(self) -> dict[str, int]:
        """How long it was in each state, by the letters of bars."""
        parts = {LETTERS[state]: 0 for state in LETTERS}
        if self.thread.time is not None:
            parts.update({LETTERS[state]: ns for state, ns in states(self.thread.time).items()})
        return parts

    @property
    def window_ns(self) -> int:
        """What its parts are shares of."""
        return whole_ns(self.thread, self.parts, self._window_ns)

    @property
    def cause(self) -> str:
        """The first sentence of its worst finding; empty: there is none."""
        finding = self._finding
        return printable(finding.sentence or finding.text) if finding is not None else ""

    @property
    def brief_cause(self) -> str:
        """The same without the thread's own name at its beginning, which its row has."""
        subject = f"{printable(self.thread.name)} ({self.thread.tid}) "
        role, found, predicate = self.cause.partition(subject)
        is_subject = found and (not role or role.endswith("thread "))
        return predicate if is_subject and not predicate.startswith("and ") else self.cause


ORDERS: Mapping[str, Callable[[Row], object]] = MappingProxyType(
    {
        "LOST": lambda row: -row.lost_ns,
        "READY": lambda row: -row.parts.get("R", 0),
        "KERN": lambda row: -row.parts.get("K", 0),
        "USER": lambda row: -row.parts.get("U", 0),
        "BLOCK": lambda row: -row.parts.get("B", 0),
        "NAME": lambda row: row.name,
    }
)
"""What rows can be sorted by, and how."""


class Shown(Struct, frozen=True):
    """A window's Samples, ready to be shown.

    Attributes:
        samples: One of each process, judged.
        sample: All of them as one.
        rows: The threads, those first that lost most.
        header: What a recording of them says of itself.
        others: How many processes there are that are not measured.
    """

    samples: Sequence[Sample]
    sample: Sample
    rows: Sequence[Row]
    header: RecordingHeader
    others: int = 0


def shown(samples: Sequence[Sample], header: RecordingHeader, others: int = 0) -> Shown:
    """Return what is to be shown of a window's Samples."""
    sample, processes = together(samples)
    found: dict[int, Finding] = {}
    for each in samples:
        for finding in each.verdict:
            known = found.get(finding.tid)
            if known is None or (known.remark, -known.share) > (finding.remark, -finding.share):
                found[finding.tid] = finding
    window_ns = sample.window.duration_ns
    rows = [
        Row(thread, found.get(thread.tid), window_ns, processes) for thread in worst_first(sample)
    ]
    return Shown(samples, sample, rows, header, others)


class View:
    """What was chosen by keys: an order, a filter, a thread."""

    def __init__(self) -> None:
        """Show all threads, those first that lost most."""
        self.order = "LOST"
        self.pattern = ""
        self.message = ""
        self.frozen = self.expanded = self.helping = self._typing = False
        self._selected: int | None = None
        self._moved = 0

    def press(self, key: str) -> Action | None:
        """Take a key: a character, or `up` or `down`."""
        self.message = ""
        if self._typing:
            self._type(key)
            return None
        match key:
            case "q":
                return "quit"
            case "w":
                return "record"
            case "\x1a":
                return "suspend"
            case "up" | "k":
                self._moved -= 1
            case "down" | "j":
                self._moved += 1
            case "s":
                orders = list(ORDERS)
                self.order = orders[(orders.index(self.order) + 1) % len(orders)]
            case " ":
                self.frozen = not self.frozen
            case "/":
                self._typing, self.pattern = True, ""
            case "?":
                self.helping = not self.helping
            case "\x1b":
                self.expanded, self.helping, self.pattern = False, False, ""
            case _ if key in _ENTER:
                self.expanded = not self.expanded
        return None

    def _type(self, key: str) -> None:
        if key in _ENTER or key in (_ESCAPE, _SUSPEND):
            self._typing = False
            if key == _ESCAPE:
                self.pattern = ""
        elif key in _BACKSPACE:
            self.pattern = self.pattern[:-1]
        elif len(key) == 1 and key.isprintable():
            self.pattern += key

    def lines(self, what: Shown | None, columns: int, lines: int) -> list[Line]:
        """Return the screen: no more than so many lines, of no more than so many columns."""
        if what is None:
            return self._fitted(
                [("kernel-delay top: the first window is open", None)], columns, lines
            )
        rows = self._rows(what)
        selected = self._select(rows)
        head: list[Line] = [(self._title(what, len(rows)), "heading")]
        if self.helping:
            legend = ", ".join(f"{letter} {name}" for letter, name in LEGEND.items())
            head += [(line, None) for line in (*HELP, *Layout(columns).wrapped(f"Bars: {legend}"))]
        room = lines - len(head) - 1
        if self.expanded and selected is not None:
            body: list[Line] = [(line, None) for line in self._tables(selected, columns, room)]
        else:
            causes = list(_causes(what.sample, columns))[: max(0, room // _PART_OF_CAUSES)]
            above = list(_table(rows, selected, columns, max(1, room - len(causes) - 1)))
            body = [*above, *[("", None)] * (room - len(above) - len(causes)), *causes]
        return [*self._fitted([*head, *body], columns, lines - 1), (self._foot()[:columns], None)]

    @staticmethod
    def _fitted(found: Sequence[Line], columns: int, lines: int) -> list[Line]:
        padded = [*found[:lines], *[("", None)] * (lines - len(found))]
        return [(text[:columns], role) for text, role in padded]

    def _rows(self, what: Shown) -> list[Row]:
        pattern = self.pattern.casefold()
        rows = [row for row in what.rows if not pattern or pattern in row.name.casefold()]
        # Stable: of those that are equal the one that lost most is first.
        return rows if self.order == "LOST" else sorted(rows, key=ORDERS[self.order])  # type: ignore[arg-type]

    def _select(self, rows: Sequence[Row]) -> Row | None:
        """Return the row that is selected by now; the first, if its thread has gone."""
        if not rows:
            return None
        tids = [row.thread.tid for row in rows]
        place = tids.index(self._selected) if self._selected in tids else 0
        place = min(max(place + self._moved, 0), len(rows) - 1)
        if self._moved or self._selected not in tids:
            # Until a key says otherwise it is the worst, whichever that is.
            self._selected = tids[place] if self._moved else None
        self._moved = 0
        return rows[place]

    def _title(self, what: Shown, threads: int) -> str:
        window, sample = what.sample.window, what.sample
        others = f" of {len(what.samples) + what.others:,}" if what.others else ""
        word = "process" if len(what.samples) == 1 and not others else "processes"
        thread = "thread" if threads == 1 else "threads"
        filtered = f" with '{printable(self.pattern)}'" if self.pattern else ""
        frozen = "  FROZEN" if self.frozen else ""
        return (
            f"kernel-delay top, {printable(sample.host)}: {len(what.samples):,}{others} {word},"
            f" {threads:,} {thread}{filtered}, by {self.order}, {window.duration_ns / 1e9:.1f} s"
            f" to {window.collected_time:%H:%M:%S}{frozen}"
        )

    def _foot(self) -> str:
        return f"/{self.pattern}" if self._typing else self.message or KEYS

    @staticmethod
    def _tables(row: Row, columns: int, room: int) -> list[str]:
        cause = Layout(columns).wrapped(row.cause) if row.cause else []
        return [*cause, *block(row.thread, Layout(columns), columns, max(1, room - len(cause)))]


def _causes(sample: Sample, columns: int) -> Iterator[Line]:
    # Plain lines, each with what it is: the terminal has the colours.
    roles: list[Role] = []

    def noted(text: str, role: Role) -> str:
        roles.append(role)
        return text

    for line in verdict(sample, Layout(columns, style=noted)):
        yield line, roles[-1] if roles else None


def _table(rows: Sequence[Row], selected: Row | None, columns: int, most: int) -> Iterator[Line]:
    has_shares, has_causes = columns >= _COLUMNS_FOR_SHARES, columns >= _COLUMNS_FOR_CAUSES
    headings = "".join(f"{name.removeprefix('% '):>6}" for name in HEADINGS)
    above_bar = " " * len(f" |{bar({})}| ")
    heading = f"{'TID':>8} {'LOST/s':>8}{headings if has_shares else ''}{above_bar}"
    yield f"{heading}{'THREAD':{_NAME_WIDTH}} {'CAUSE' if has_causes else ''}".rstrip(), "heading"
    place = rows.index(selected) if selected is not None else 0
    first = max(0, min(place - (most - 1) // 2, len(rows) - (most - 1)))
    for row in rows[first : first + most - 1]:
        window_ns = row.window_ns
        mark = ">" if row is selected else " "
        line = f"{mark}{row.thread.tid:7} {1000 * row.lost_ns / window_ns:5.0f} ms"
        if has_shares:
            line += shares(row.parts, window_ns)
        line += f" |{bar(row.parts)}| "
        line += (
            f"{row.name[:_NAME_WIDTH]:{_NAME_WIDTH}} {row.brief_cause}" if has_causes else row.name
        )
        yield line.rstrip(), "selected" if row is selected else None
