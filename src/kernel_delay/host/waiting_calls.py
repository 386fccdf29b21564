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

# With which a signal's handler ends.
HANDLERS_ENDS = ("rt_sigreturn", "sigreturn")
