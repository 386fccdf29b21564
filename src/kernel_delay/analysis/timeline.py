"""From a timeline's slices to what they add up to."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby

from kernel_delay.analysis.accounting import NOT_RUNNING, Counted, Mode, NotRunning, account
from kernel_delay.model import Slice, SliceKind, ThreadTime, Window

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


def account_of(slices: Iterable[Slice], window: Window) -> ThreadTime:
    """Where a thread's window went, by its slices alone.

    What was lost of them is unaccounted. Without losses it is the thread's account, to the
    nanosecond.
    """
    mode_ns: defaultdict[Mode, int] = defaultdict(int)
    not_running_ns: defaultdict[tuple[Mode, NotRunning], int] = defaultdict(int)
    absent_ns = lost_ns = 0
    worker = False
    # An interrupt that is served within another is none of that one's.
    soft_irq_until_ns = 0
    soft_irq_mode: Mode = "unknown"
    for each in slices:
        length_ns = each.stop_ns - each.start_ns
        worker = worker or each.mode == "worker"
        if each.kind == "absent":
            absent_ns += length_ns
        elif each.kind in ("lost_modes", "lost_states"):
            lost_ns += length_ns
        elif each.kind in MODES:
            mode_ns[each.mode] += length_ns
        elif each.kind in NOT_RUNNING:
            not_running_ns[each.mode, each.kind] += length_ns
        if each.kind == "soft_irq":
            soft_irq_until_ns, soft_irq_mode = each.stop_ns, each.mode
        elif each.kind == "hard_irq" and each.start_ns < soft_irq_until_ns:
            not_running_ns[soft_irq_mode, "soft_irq"] -= length_ns
    rest_ns = window.duration_ns - absent_ns - sum(mode_ns.values())
    mode_ns["worker" if worker else "user"] += rest_ns
    mode: Mode = "worker" if worker else "user"
    not_running_ns[mode, "unknown"] += lost_ns
    counted = Counted(mode_ns, not_running_ns, absent_ns, None, {})
    return account(window.start_ns, window.stop_ns, counted, None).time
