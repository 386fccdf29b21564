"""A Sample as one line a thread, with a bar of where its time went, and the verdict."""

from collections.abc import Iterator

from kernel_delay.analysis.losses import by_name, slept_throughout, worst_first
from kernel_delay.analysis.states import states
from kernel_delay.model import Sample, Thread, ThreadTime
from kernel_delay.printable import printable
from kernel_delay.reporters.layout import IN_A_PIPE, Layout
from kernel_delay.reporters.sleepers import sleepers
from kernel_delay.reporters.text import closing, process_lines, timestamps, verdict

# A line is 79 columns: on a terminal of 80 none goes on in the next.
BAR_WIDTH = 17
NAME_WIDTH = 15
LETTERS = {
    "user": "U",
    "kernel": "K",
    "guest": "G",
    "irq": "I",
    "ready": "R",
    "blocked": "B",
    "stopped": "S",
    "throttled": "T",
    "frozen": "F",
    "absent": "-",
    "unaccounted": "?",
}

SHARES = {"U": "% USER", "K": "KERN", "I": "IRQ", "R": "READY", "B": "BLOCK", "S": "STOP"}

LEGEND = {
    "U": "user",
    "K": "kernel",
    "G": "guest",
    "I": "interrupts",
    "R": "ready",
    "B": "blocked",
    "S": "stopped",
    "T": "throttled",
    "F": "frozen",
    "-": "absent",
    "?": "unaccounted",
}


def render(sample: Sample, layout: Layout = IN_A_PIPE) -> str:
    """The summary of one window."""
    return "".join(f"{line}\n" for line in _report(sample, layout))


def _report(sample: Sample, layout: Layout) -> Iterator[str]:
    yield from timestamps(sample, layout)
    yield from process_lines(sample, layout)
    yield from verdict(sample, layout)
    shares = "".join(f"{name:>6}" for name in SHARES.values())
    yield layout.heading(f"{'TID':>7} {'THREAD':{NAME_WIDTH}}{shares}")
    sleeping = frozenset[int]() if layout.all_threads else slept_throughout(sample)
    threads = by_name(sample) if layout.order == "name" else worst_first(sample)
    timed = [(t, t.time) for t in threads if t.time is not None and t.tid not in sleeping]
    letters: set[str] = set()
    for thread, time in timed:
        parts = _parts(time)
        letters.update(letter for letter, ns in parts.items() if ns)
        yield _line(thread, parts)
    if timed:
        named = ", ".join(
            f"{letter} {name}" for letter, name in LEGEND.items() if letter in letters
        )
        yield from layout.comment(f"Bars: {named}.")
    yield from sleepers(sample, sleeping, layout)
    yield from closing(sample, layout)


def _line(thread: Thread, parts: dict[str, int]) -> str:
    window_ns = sum(parts.values()) or 1
    shares = "".join(f"{100 * parts[letter] / window_ns:6.1f}" for letter in SHARES)
    return f"{thread.tid:7} {_name(thread):{NAME_WIDTH}}{shares} |{bar(parts)}|"


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
