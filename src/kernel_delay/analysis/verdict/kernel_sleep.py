"""The rule on sleep in calls that are not made to wait, where the kernel's stack has no reason."""

from kernel_delay.analysis.verdict.formatting import call, largest_part, length, name
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.wait_reasons import WITHOUT_REASON
from kernel_delay.analysis.verdict.wakers import main_waker
from kernel_delay.model import Sample, Sleep, SyscallStats, Thread

# One part in twenty is what a user notices as slower.
WANTED_SHARE = 0.05

# Calls that are not made to wait for someone: files, memory, new threads, and
# sending. One that sleeps waits for a device, a lock in the kernel or a full buffer.
NOT_MADE_TO_WAIT = frozenset(
    (
        *("open", "openat", "openat2", "creat", "close", "close_range", "stat", "fstat", "lstat"),
        *("newfstatat", "statx", "access", "faccessat", "faccessat2", "getdents", "getdents64"),
        *("write", "writev", "pwrite64", "pwritev", "pwritev2", "pread64", "preadv", "preadv2"),
        *("fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "truncate"),
        *("ftruncate", "fallocate", "rename", "renameat", "renameat2", "link", "linkat"),
        *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "readlink", "readlinkat"),
        *("mmap", "munmap", "mremap", "mprotect", "madvise", "mlock", "mlockall", "brk"),
        *("clone", "clone3", "fork", "vfork", "execve", "execveat"),
        *("sendto", "sendmsg", "sendmmsg", "bind", "socket", "setsockopt", "getsockopt"),
        # of 32-bit ABIs
        *("stat64", "fstat64", "lstat64", "fstatat64", "truncate64", "ftruncate64", "mmap2"),
        *("send", "sync_file_range2", "arm_sync_file_range"),
    )
)


def is_made_to_wait(sleep: Sleep) -> bool:
    """Whether kernel_sleep does not look at it."""
    return not (sleep.reason in WITHOUT_REASON and sleep.syscall in NOT_MADE_TO_WAIT)


def _unexplained_ns(thread: Thread, stats: SyscallStats) -> int:
    """What is known of the sleep in a call only by the call's name."""
    explained = sum(
        sleep.ns
        for sleep in thread.sleeps
        if sleep.syscall == stats.name and sleep.reason not in WITHOUT_REASON
    )
    return max(0, (stats.blocked_ns or 0) - explained)


def _sleeping_calls(thread: Thread) -> list[tuple[int, SyscallStats]]:
    found = [
        (_unexplained_ns(thread, stats), stats)
        for stats in thread.syscalls
        if stats.name in NOT_MADE_TO_WAIT
    ]
    return sorted(found, key=lambda pair: (-pair[0], pair[1].number))


def _kernel_sleep_ns(sample: Sample, thread: Thread) -> int:
    if thread.time is None:
        return 0
    # Where an event was missed, a sleep may stand under another call's name than its time: it is
    # for the rule of its reason.
    known_ns = sum(sleep.ns for sleep in thread.sleeps if is_made_to_wait(sleep))
    left_ns = max(0, thread.time.blocked_ns - known_ns)
    return min(left_ns, sum(ns for ns, _ in _sleeping_calls(thread)))


def _say_kernel_sleep(case: Case) -> Statement:
    most_ns, stats = _sleeping_calls(case.thread)[0]
    claim = f"{name(case.sample, case.thread)} slept in calls that are not made to wait"
    part = largest_part(most_ns, case.lost_ns).capitalize()
    most = (
        f"{part} was in {call(stats)}, {length(most_ns)}: for a device, a lock in the kernel or a"
        " full buffer."
    )
    unexplained = [
        sleep
        for sleep in case.thread.sleeps
        if sleep.syscall == stats.name and sleep.reason in WITHOUT_REASON
    ]
    waker = main_waker(unexplained, most_ns)
    if waker is None:
        return Statement(claim, "kernel", details=(most,))
    details = (most, waker.text(case.sample))
    return Statement(claim, "kernel", {"waker_tid": waker.tid}, details)


KERNEL_SLEEP = Rule(
    name="kernel_sleep",
    least_share=WANTED_SHARE,
    lost_ns=_kernel_sleep_ns,
    say=_say_kernel_sleep,
    measures="Sleep in calls that should not wait, where the kernel's stack gives no reason."
    " Names who ended the sleep.",
    limits=("Only the call's name and the waker are known."),
)
