"""Charts over time, of as many values as there are, in bounded memory: see static/chart.js."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from kernel_delay.formatting import NS_PER_S, printable

MOST_SLOTS = 4000
"""From the first to the last; beyond that they get wider."""

MOST_LINES = 7
"""As many as there are colours; what is of others is one of them."""

OTHERS = "others"

# A recording that others made may say what no clock does: that is drawn at an end.
_MOST = 2**63 - 1

Unit = Literal["ms", "us", "a second", ""]


class PageLine(Struct, frozen=True):
    """A line of a chart; None where it has nothing to show."""

    name: str
    values: tuple[float | None, ...]


class PageChart(Struct, frozen=True):
    """A chart. `at_ns` are its times; `of` says what a point of it is of."""

    id: str
    title: str
    unit: Unit
    of: str
    at_ns: tuple[int, ...]
    lines: tuple[PageLine, ...]


class _Slots:
    """The values of lines, by slots of time as wide as they have to be."""

    def __init__(self, width_ns: int, join: Callable[[int, int], int]) -> None:
        self.width_ns = width_ns
        self.lines: dict[str, dict[int, int]] = {}
        self.first = self.last = 0
        self._join = join

    def add(self, line: str, time_ns: int, value: int) -> None:
        slot = _bounded(time_ns) // self.width_ns
        if not self.lines:
            self.first = self.last = slot
        self.first, self.last = min(self.first, slot), max(self.last, slot)
        if line not in self.lines and len(self.lines) >= MOST_LINES - 1:
            line = OTHERS
        self._put(self.lines.setdefault(line, {}), slot, _bounded(value))
        while self.last - self.first >= MOST_SLOTS:
            self._widen()

    def _put(self, values: dict[int, int], slot: int, value: int) -> None:
        known = values.get(slot)
        values[slot] = value if known is None else self._join(known, value)

    def _widen(self) -> None:
        self.width_ns *= 2
        self.first, self.last = self.first // 2, self.last // 2
        for line, values in self.lines.items():
            self.lines[line] = {}
            for slot, value in values.items():
                self._put(self.lines[line], slot // 2, value)


class Peaks:
    """The largest value of each slot, from a millisecond on; slots without one have no point."""

    def __init__(self, scale: int = 1) -> None:
        """`scale` is what the values are divided by."""
        self._slots = _Slots(NS_PER_S // 1000, max)
        self._scale = scale

    def add(self, line: str, time_ns: int, value: int) -> None:
        """Take a value of that line."""
        self._slots.add(line, time_ns, value)

    def chart(self, name: str, title: str, unit: Unit) -> PageChart:
        """The chart; its times are when its slots begin."""
        slots, lines = self._slots, self._slots.lines
        there = sorted({slot for values in lines.values() for slot in values})
        shown = tuple(
            PageLine(
                printable(line),
                tuple(None if (v := values.get(at)) is None else v / self._scale for at in there),
            )
            for line, values in lines.items()
        )
        of = f"the largest in {_width_text(slots.width_ns)}"
        return PageChart(name, title, unit, of, _times(there, slots.width_ns), shown)


class Rates:
    """How many there were a second, in slots from a second on, 0 in those without one."""

    def __init__(self) -> None:
        """Start before the first."""
        self._slots = _Slots(NS_PER_S, lambda a, b: a + b)

    def add(self, line: str, time_ns: int, count: int = 1) -> None:
        """Add to the count of that line."""
        self._slots.add(line, time_ns, count)

    def chart(self, name: str, title: str) -> PageChart:
        """The chart; its times are when its slots begin."""
        slots, lines = self._slots, self._slots.lines
        there = list(range(slots.first, slots.last + 1)) if lines else []
        seconds = slots.width_ns // NS_PER_S
        shown = tuple(
            PageLine(printable(line), tuple(values.get(at, 0) / seconds for at in there))
            for line, values in lines.items()
        )
        of = f"the mean of {_width_text(slots.width_ns)}"
        return PageChart(name, title, "a second", of, _times(there, slots.width_ns), shown)


def _times(slots: list[int], width_ns: int) -> tuple[int, ...]:
    return tuple(slot * width_ns for slot in slots)


def _bounded(value: int) -> int:
    return min(max(value, 0), _MOST)


def _width_text(width_ns: int) -> str:
    if width_ns < NS_PER_S:
        return f"{width_ns // (NS_PER_S // 1000):,} ms"
    return f"{width_ns / NS_PER_S:,.3f}".rstrip("0").rstrip(".") + " s"
