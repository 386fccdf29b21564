"""Names of interrupts: soft IRQ vectors, and x86's own, which have no handler with a name."""

# arch/x86/include/asm/irq_vectors.h, the same from 5.14 to 6.18; the names are those of
# /proc/interrupts (arch/x86/kernel/irq.c: arch_show_interrupts()) without "interrupts".
IRQ_VECTORS = {
    0xEC: "local timer",
    0xF6: "IRQ work",
    0xFB: "function call",
    0xFC: "function call",
    0xFD: "rescheduling",
}

# Of irq_vectors: X is X_entry and X_exit.
IRQ_TRACEPOINTS = (
    "local_timer",
    "irq_work",
    "call_function_single",
    "call_function",
    "reschedule",
)


def irq_vector_name(vector: int) -> str:
    """Return what interrupts of that vector are."""
    return IRQ_VECTORS.get(vector, f"vector {vector}")


# enum in include/linux/interrupt.h, and softirq_to_name[] in kernel/softirq.c:
# the same ten from 5.14 to 6.18.
SOFT_IRQS = (
    "hi", "timer", "net_tx", "net_rx", "block",
    "irq_poll", "tasklet", "sched", "hrtimer", "rcu",
)  # fmt: skip


def soft_irq_name(vector: int) -> str | None:
    """Return the vector's name as /proc/softirqs has it, in lower case; None if it has none."""
    return SOFT_IRQS[vector] if vector < len(SOFT_IRQS) else None
