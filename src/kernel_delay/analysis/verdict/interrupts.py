"""The rule on interrupts in a thread's time on a CPU."""

from kernel_delay.analysis.verdict.doubtful_user import (
    DOUBTFUL_USER,
    causes_of,
    doubtful_ns,
    interrupts_of,
)
from kernel_delay.analysis.verdict.formatting import length, name
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.host import irq_vectors
from kernel_delay.model import Sample, Thread


def foreign_interrupt_ns(sample: Sample, thread: Thread) -> int:
    """Interrupts' time on a thread that its own calls did not raise."""
    if thread.time is None:
        return 0
    return thread.time.hard_irq_ns + thread.time.soft_irq_ns - thread.own_soft_irq_ns


def _say_interrupts(case: Case) -> Statement:
    thread = case.thread
    irqs = [(irq.total_ns, irq.name) for irq in thread.hard_irqs]
    irqs += [(irq.total_ns, f"soft {irq.name or irq.vector}") for irq in thread.soft_irqs]
    details: tuple[str, ...] = ()
    if irqs:
        most_ns, most = max(irqs)
        # With what its own calls raised it can be more than what others did.
        how_long = f", {length(most_ns)}" if most_ns <= case.lost_ns else ""
        details = (f"Most of it was {most}{how_long}.",)
    doubtful = _beside_handlers(case)
    return Statement(
        f"interrupts took the CPU from {name(case.sample, thread)}",
        "kernel",
        {"interrupts": sum(irq.count for irq in thread.hard_irqs)},
        (*details, *doubtful),
        _irq_advice(thread),
        frozenset([(DOUBTFUL_USER.name, thread.tid)] if doubtful else []),
    )


def _beside_handlers(case: Case) -> tuple[str, ...]:
    """What entering and leaving so many interrupts took besides, where nothing else explains it.

    The kernel counts that as its own, and the handlers' tracepoints are within it.
    """
    sample, thread = case.sample, case.thread
    interrupts, ns = interrupts_of(sample, thread), doubtful_ns(thread)
    least_ns = DOUBTFUL_USER.least_share * sample.window.duration_ns
    if interrupts is None or ns < least_ns or causes_of(sample, thread):
        return ()
    return (f"To enter and leave {interrupts} may have taken another {length(ns)}.",)


# Soft IRQs that a device's interrupts raise; the others are timers', RCU's, the scheduler's.
_OF_DEVICES = frozenset(("net_tx", "net_rx", "block", "irq_poll"))
_OWN_HARD_IRQS = frozenset(irq_vectors.NAMES.values())


def _irq_advice(thread: Thread) -> str | None:
    """How a device's interrupts are kept off the CPU; None if most are the kernel's own."""
    of_devices = [irq.total_ns for irq in thread.hard_irqs if irq.name not in _OWN_HARD_IRQS]
    of_devices += [irq.total_ns for irq in thread.soft_irqs if irq.name in _OF_DEVICES]
    all_ns = sum(irq.total_ns for irq in thread.hard_irqs)
    all_ns += sum(irq.total_ns for irq in thread.soft_irqs)
    if 2 * sum(of_devices) < all_ns:
        return None
    return "See /proc/interrupts and the IRQs' smp_affinity."


INTERRUPTS = Rule(
    name="interrupt_load",
    least_share=0.05,
    lost_ns=foreign_interrupt_ns,
    say=_say_interrupts,
    measures=("Hard and soft IRQs in the thread's time on a CPU."),
    limits="Leaves out soft IRQs that the thread's own sending raised. In a record of"
    " `watch`, soft IRQs count from a tenth of the threshold on. Vectors without an"
    " irq_handler, as the timer's, count as user and kernel time.",
)
