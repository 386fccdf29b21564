"""A line a thread: its shares of the window, and a bar; those that slept throughout share one."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from kernel_delay.analysis.states import states
from kernel_delay.formatting import printable
from kernel_delay.model import Sample, Thread, ThreadTime
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.processes import TITLE_WIDTH, Processes

# A line is 79 columns: on a terminal of 80 none goes on in the next.
BAR_WIDTH = 17
NAME_WIDTH = 15
LETTERS = {
    "user": "U",
    "kernel": "K",
    "guest": "G",
    "tool": "D",
    "irq": "I",
    "ready": "R",
    "blocked": "B",
    "stopped": "S",
    "throttled": "T",
    "frozen": "F",
    "absent": "-",
    "unaccounted": "?",
}

HEADINGS = ("% USER", "KERN", "IRQ", "READY", "BLOCK", "HELD")
"""Above the shares()."""

LEGEND = {letter: state for state, letter in LETTERS.items()}
LEGEND.update(D="kernel-delay", I="interrupts")

# Of several processes a title says more than a bar: on less than this there is room for one of the
# two.
_COLUMNS_FOR_BOTH = 100


def overview(
    threads: Sequence[Thread], layout: Layout, processes: Processes, window_ns: int
) -> Iterator[str]:
    """The lines of those whose time was accounted for, in that order, below their headings."""
    timed = [(thread, _parts(thread.time)) for thread in threads if thread.time is not None]
    has_bars = not processes or layout.width is None or layout.width >= _COLUMNS_FOR_BOTH
    headings = "".join(f"{name:>6}" for name in HEADINGS)
    if processes:
        above_bar = " " * len(f" |{bar({})}|") if has_bars else ""
        yield layout.heading(f"{'TID':>7} {headings}{above_bar} PROCESS OR THREAD")
    else:
        yield layout.heading(f"{'TID':>7} {'THREAD':{NAME_WIDTH}}{headings}")
    letters: set[str] = set()
    for thread, parts in timed:
        line = f"{thread.tid:7} {'' if processes else f'{_name(thread):{NAME_WIDTH}}'}"
        line += shares(parts, whole_ns(thread, parts, window_ns))
        if has_bars:
            drawn = bar(parts)
            letters.update(drawn)
            line += f" |{drawn}|"
        if processes:
            # One column less: on some terminals a full line is followed by an empty one.
            room = None if layout.width is None else layout.width - 2 - len(line)
            line += f" {processes.named(thread, room)}"
        yield line
    if letters:
        named = ", ".join(
            f"{letter} {name}" for letter, name in LEGEND.items() if letter in letters
        )
        yield from layout.comment(f"Bars: {named}.")


def whole_ns(thread: Thread, parts: Mapping[str, int], window_ns: int) -> int:
    """What parts are shares of: a thread's add up to it, those of several that ended to many."""
    return (sum(parts.values()) if thread.tid else window_ns) or 1


def shares(parts: Mapping[str, int], window_ns: int) -> str:
    """The cells below HEADINGS, in percent of so much time."""
    held_ns = parts["S"] + parts["T"] + parts["F"]
    shown = (parts["U"], parts["K"], parts["I"], parts["R"], parts["B"], held_ns)
    return "".join([f" {_percent(100 * ns / window_ns):>5}" for ns in shown])


def _percent(percent: float) -> str:
    """A cell's number; of many threads it can be so much that there is no room for a tenth."""
    text = f"{percent:.1f}"
    return text if len(text) <= len("100.0") else f"{percent:.0f}"


def _name(thread: Thread) -> str:
    """As much of it as there is room for; with how many they are, of several that ended."""
    many = f" x{thread.threads:,}" if thread.threads > 1 else ""
    return printable(thread.name)[: NAME_WIDTH - len(many)] + many


def _parts(time: ThreadTime) -> dict[str, int]:
    return {LETTERS[state]: ns for state, ns in states(time).items()}


def bar(parts: dict[str, int]) -> str:
    """BAR_WIDTH letters, of each as many as its part's share; those most cut short round up."""
    whole = sum(parts.values())
    if not whole:
        return " " * BAR_WIDTH
    widths = {letter: part * BAR_WIDTH // whole for letter, part in parts.items()}
    left = BAR_WIDTH - sum(widths.values())
    for letter in sorted(parts, key=lambda letter: -(parts[letter] * BAR_WIDTH % whole))[:left]:
        widths[letter] += 1
    return "".join(letter * width for letter, width in widths.items())


SHOWN_KINDS = 10

_NUMBERS = re.compile(r"\d+")


def sleepers(
    sample: Sample, sleeping: Collection[int], layout: Layout, processes: Processes
) -> Iterator[str]:
    """The line, those of one name together, whatever the numbers in it; none if none slept."""
    names = [
        processes.named(thread, TITLE_WIDTH) if processes else printable(thread.name)
        for thread in sample.threads
        if thread.tid in sleeping
    ]
    if not names:
        return
    alike = Counter(_NUMBERS.sub("*", name) for name in names)
    kinds = [_kind(kind, count, names) for kind, count in alike.most_common(SHOWN_KINDS)]
    if left := sum(alike.values()) - sum(n for _, n in alike.most_common(SHOWN_KINDS)):
        kinds.append("1 other" if left == 1 else f"{left:,} others")
    threads = "1 thread" if len(names) == 1 else f"{len(names):,} threads"
    yield ""
    yield from layout.comment(
        f"{threads} slept throughout: {', '.join(kinds)} (--all-threads shows them)."
    )


def _kind(kind: str, count: int, names: list[str]) -> str:
    if count == 1:
        return next(name for name in names if _NUMBERS.sub("*", name) == kind)
    return f"{count:,} {kind}"
