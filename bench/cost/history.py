"""bench/history.jsonl: a line for each version whose figures were committed; and a plot of it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench.cost.table import Table
from kernel_delay.version import VERSION

_ROOT = Path(__file__).parents[2]
PATH = _ROOT / "bench" / "history.jsonl"
PLOT = _ROOT / "docs" / "images" / "cost.svg"

FIGURES: Mapping[str, str] = {
    "default: all programs, instructions verified": "instructions verified",
    "-s: all programs, instructions verified": "instructions verified, -s",
    "capture, modules imported": "modules imported",
    "capture, calls of read": "calls of read",
    "capture, peak memory, KiB": "peak memory, KiB",
    "capture -s, peak memory, KiB": "peak memory, -s, KiB",
    "report, text: calls, for 100 threads more": "Python's calls, 100 threads reported",
    "report, text: calls, for 100 events more": "Python's calls, 100 events reported",
}
"""The figures that are kept, of all that `make cost` has, and what the plot calls them."""

_WIDTH, _HEIGHT, _COLUMNS = 360, 110, 2
_TOP, _BOTTOM, _SIDE = 40, 14, 14


class Entry(NamedTuple):
    """A version, the day on which its figures were written, and the figures."""

    version: str
    day: str
    figures: Mapping[str, int]


def entry_of(table: Table) -> Entry:
    """Return what of these figures is kept, of this version and today."""
    measured = {name: value for group in table.values() for name, value in group.items()}
    figures = {name: measured[name] for name in FIGURES if name in measured}
    return Entry(VERSION, f"{datetime.now(UTC):%Y-%m-%d}", figures)


def read_history() -> list[Entry]:
    """Return all entries, the oldest first."""
    lines = PATH.read_text().splitlines() if PATH.exists() else []
    return [Entry(**json.loads(line)) for line in lines]


def append(entry: Entry) -> None:
    """Add an entry, in place of one of the same version, and plot them all."""
    entries = [*(each for each in read_history() if each.version != entry.version), entry]
    PATH.write_text("".join(f"{json.dumps(each._asdict())}\n" for each in entries))
    PLOT.write_text(plot(entries))


def plot(entries: Sequence[Entry]) -> str:
    """Return an SVG: a panel for each figure, from the oldest version to the newest."""
    panels = [
        _panel(title, [each.figures[name] for each in entries if name in each.figures], at)
        for at, (name, title) in enumerate(FIGURES.items())
    ]
    width, height = _WIDTH * _COLUMNS, _HEIGHT * -(-len(panels) // _COLUMNS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n' + "".join(panels) + "</svg>\n"
    )


def _panel(title: str, values: Sequence[int], at: int) -> str:
    if not values:
        return ""
    x, y = at % _COLUMNS * _WIDTH, at // _COLUMNS * _HEIGHT
    words = f"{values[-1]:,}" if len(values) == 1 else f"{values[0]:,} → {values[-1]:,}"
    dots = "".join(
        f'<circle cx="{left:.1f}" cy="{top:.1f}" r="2.5"/>' for left, top in _points(values)
    )
    line = " ".join(f"{left:.1f},{top:.1f}" for left, top in _points(values))
    return (
        f'<g transform="translate({x} {y})" fill="#24527a">'
        f'<text x="{_SIDE}" y="16" fill="black">{escape(title)}</text>'
        f'<text x="{_SIDE}" y="32">{words}</text>'
        f'<polyline points="{line}" fill="none" stroke="#24527a" stroke-width="1.5"/>{dots}</g>\n'
    )


def _points(values: Sequence[int]) -> Iterable[tuple[float, float]]:
    """Yield where each value is in its panel, whose bottom is 0."""
    step = (_WIDTH - 2 * _SIDE) / max(len(values) - 1, 1)
    room, most = _HEIGHT - _TOP - _BOTTOM, max(*values, 1)
    for at, value in enumerate(values):
        yield _SIDE + at * step, _TOP + room * (1 - value / most)
