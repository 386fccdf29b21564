"""Names that the kernel has for calls that wait, and for interrupts, also in others' recordings."""

# Those whose purpose is to wait for something to happen on file descriptors:
# between two of them a thread works through what there was. A kernel has not
# each of them on every architecture. io_uring_enter(2) is none of them: it may
# wait, but it may do a thread's I/O as well.
POLLS = (
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    # of 32-bit ABIs
    "_newselect",
    "ppoll_time64",
    "pselect6_time64",
)

# The kernel's functions of these calls, in each ABI, of which a kernel has some
# (arch/*/include/asm/syscall_wrapper.h, 5.14 to 7.2).
POLL_FUNCTIONS = tuple(
    f"__{prefix}_{name}"
    for prefix in ("x64_sys", "ia32_sys", "ia32_compat_sys", "arm64_sys", "arm64_compat_sys")
    for name in (
        *("poll", "ppoll", "ppoll_time32", "ppoll_time64", "select", "old_select", "pselect6"),
        *("pselect6_time32", "pselect6_time64", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
        "io_uring_enter",
    )
)

FUTEXES = ("futex", "futex_time64")

OVS_VSWITCHD = ("ovs-vswitchd", "ovs-vswitchd-dp")
"""The names of an ovs-vswitchd's process: Debian's with DPDK ends in -dpdk, which is cut."""

# May wait, by its arguments.
RING_ENTRY = "io_uring_enter"

# With which the kernel, on return from a signal's stop, goes on with a call.
RESTARTS = ("restart_syscall",)

# Those that wait for the one file whose descriptor is their first argument: to write to it, and
# others.
WRITES = (
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"),
    "mq_timedsend",
)
FILE_CALLS = (
    *WRITES,
    *("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg"),
    *("accept", "accept4", "connect", "fsync", "fdatasync", "sync_file_range", "flock", "fcntl"),
    *("ioctl", "fallocate", "ftruncate", "getdents64", "epoll_wait", "epoll_pwait"),
    *("epoll_pwait2", "mq_timedreceive"),
)

# Those in which nobody has sent a request yet.
ACCEPTS = ("accept", "accept4")

# Calls whose first argument is an array of descriptors, and whose second is its length.
ARRAY_POLLS = ("poll", "ppoll")

# Calls whose first argument is the descriptor of a set of files.
EPOLLS = frozenset(("epoll_wait", "epoll_pwait", "epoll_pwait2"))

# Calls whose first argument is the number of bits, and whose next three are sets of descriptors.
SET_POLLS = ("select", "pselect6", "_newselect")

# With which a signal's handler ends.
HANDLERS_ENDS = ("rt_sigreturn", "sigreturn")


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


# include/uapi/asm-generic/signal.h (6.18), which x86-64 and arm64 have both, from 1 on.
SIGNALS = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE"),
    *("SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT"),
    *("SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU"),
    *("SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS"),
)

# The first that programs may use: glibc keeps two of the kernel's for itself, nptl(7).
SIGRTMIN = 34


def signal_name(number: int) -> str:
    """Return what a signal is called, as SIGTERM, SIGRTMIN+3, or signal 33."""
    if 0 < number <= len(SIGNALS):
        return SIGNALS[number - 1]
    if number < SIGRTMIN:
        return f"signal {number}"
    return f"SIGRTMIN+{number - SIGRTMIN}" if number > SIGRTMIN else "SIGRTMIN"


OPENS = frozenset(("open", "openat", "openat2", "creat"))
"""Calls that open a file. One that waits for a pipe waits for who opens the other end of a FIFO."""
