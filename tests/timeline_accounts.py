"""A thread's account as its timeline alone has it: what the account itself is held against."""

from collections import defaultdict
from collections.abc import Iterable

from kernel_delay.analysis.accounting import NOT_RUNNING, Counted, Mode, NotRunning, account
from kernel_delay.analysis.timeline import MODES
from kernel_delay.model import Slice, ThreadTime, Window


def account_of(slices: Iterable[Slice], window: Window) -> ThreadTime:
    """Where a thread's window went, by its slices alone.

    What was lost of them is unaccounted. Without losses it is the thread's account, to the
    nanosecond.
    """
    mode_ns: defaultdict[Mode, int] = defaultdict(int)
    not_running_ns: defaultdict[tuple[Mode, NotRunning], int] = defaultdict(int)
    absent_ns = lost_ns = 0
    worker = False
    # What came within a soft IRQ is none of its time: a hard IRQ, and with PREEMPT_RT other tasks.
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
        elif each.kind in NOT_RUNNING and each.start_ns < soft_irq_until_ns:
            not_running_ns[soft_irq_mode, "soft_irq"] -= length_ns
    rest_ns = window.duration_ns - absent_ns - sum(mode_ns.values())
    mode_ns["worker" if worker else "user"] += rest_ns
    mode: Mode = "worker" if worker else "user"
    not_running_ns[mode, "unknown"] += lost_ns
    counted = Counted(mode_ns, not_running_ns, absent_ns, None, {})
    return account(window.start_ns, window.stop_ns, counted, None).time
