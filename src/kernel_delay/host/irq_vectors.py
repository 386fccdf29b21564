"""x86's interrupts of the kernel's own: they have tracepoints, and no handler with a name."""

# arch/x86/include/asm/irq_vectors.h, the same from 5.14 to 6.18; the names are those of
# /proc/interrupts (arch/x86/kernel/irq.c: arch_show_interrupts()) without "interrupts".
NAMES = {
    0xEC: "local timer",
    0xF6: "IRQ work",
    0xFB: "function call",
    0xFC: "function call",
    0xFD: "rescheduling",
}

# Of irq_vectors: X is X_entry and X_exit.
TRACEPOINTS = (
    "local_timer",
    "irq_work",
    "call_function_single",
    "call_function",
    "reschedule",
)


def irq_vector_name(vector: int) -> str:
    """Return what interrupts of that vector are."""
    return NAMES.get(vector, f"vector {vector}")
