"""Names of the soft IRQ vectors."""

# enum in include/linux/interrupt.h, and softirq_to_name[] in kernel/softirq.c:
# the same ten from 5.14 to 6.18.
NAMES = (
    "hi", "timer", "net_tx", "net_rx", "block",
    "irq_poll", "tasklet", "sched", "hrtimer", "rcu",
)  # fmt: skip


def soft_irq_name(vector: int) -> str | None:
    """Return the vector's name as /proc/softirqs has it, in lower case; None if it has none."""
    return NAMES[vector] if vector < len(NAMES) else None
