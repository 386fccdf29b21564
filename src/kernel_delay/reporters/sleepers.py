"""The threads that slept throughout, as one line: sixty of them must not hide the one at work."""

import re
from collections import Counter
from collections.abc import Collection, Iterator

from kernel_delay.model import Sample
from kernel_delay.printable import printable
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.processes import TITLE_WIDTH, Processes

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
        kinds.append(f"{left:,} others")
    threads = "1 thread" if len(names) == 1 else f"{len(names):,} threads"
    yield ""
    yield from layout.comment(
        f"{threads} slept throughout: {', '.join(kinds)} (--all-threads shows them)."
    )


def _kind(kind: str, count: int, names: list[str]) -> str:
    if count == 1:
        return next(name for name in names if _NUMBERS.sub("*", name) == kind)
    return f"{count:,} {kind}"
