"""From a timeline's slices to what they add up to."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from kernel_delay.model import Slice, SliceKind, Window

MODES: frozenset[SliceKind] = frozenset({"call", "fault", "unknown_mode", "lost_modes"})
INTERRUPTS: frozenset[SliceKind] = frozenset({"hard_irq", "soft_irq", "guest"})
"""All other slices are of states."""


LOST: frozenset[SliceKind] = frozenset({"lost_states", "lost_modes"})


def whole_parts(slices: Iterable[Slice], window: Window) -> tuple[int, int] | None:
    """Return how long the parts at a window's beginning and its end are of which all is kept.

    In ns; None if that is all of the window.
    """
    lost = [each for each in slices if each.kind in LOST]
    if not lost:
        return None
    first_ns = min(each.start_ns for each in lost)
    last_ns = max(each.stop_ns for each in lost)
    return first_ns - window.start_ns, window.stop_ns - last_ns


def by_thread(slices: Iterable[Slice]) -> Iterator[tuple[int, Iterator[Slice]]]:
    """The slices of each thread, by its tid."""
    return groupby(slices, key=lambda each: each.tid)
