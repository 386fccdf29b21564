"""System calls that are known by name: those to wait with. Of any machine's recording."""

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

FUTEXES = ("futex", "futex_time64")

# May wait, by its arguments.
RING_ENTRY = "io_uring_enter"

# With which the kernel, on return from a signal's stop, goes on with a call.
RESTARTS = ("restart_syscall",)

# With which a signal's handler ends.
HANDLERS_ENDS = ("rt_sigreturn", "sigreturn")
