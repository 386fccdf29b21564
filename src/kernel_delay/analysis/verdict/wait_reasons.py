"""What the reasons to sleep mean: in words, with advice."""

from msgspec import Struct

from kernel_delay.model import SleepReason, Who

# Two threads that take turns, as by an interpreter's lock, wait for half of the time each, less
# what else delays them.
TURNS_SHARE = 0.3


class Wait(Struct, frozen=True):
    """What a reason to sleep means.

    Attributes:
        reason: The reason.
        phrase: What the thread waits for, in words.
        who: Who causes it.
        advice: What helps: sentences.
        remark: The thread may be there to wait so.
        least_share: The share of the window from which on it counts. None: the default.
        in_rounds: It only counts in a round.
        by_peers: Outside of rounds it only counts if another process ends most of these waits.
        by_others: What helps where another process's threads end most of these waits.
    """

    reason: SleepReason
    phrase: str
    who: Who
    advice: str | None = None
    remark: bool = False
    least_share: float | None = None
    in_rounds: bool = False
    by_peers: bool = False
    by_others: str | None = None


WAITS = (
    Wait("disk", "a disk", "kernel",
         "See iostat -x for the device, pidstat -d for who else uses it, and its cgroup's limit"
         " (io.max; blkio.throttle.* of cgroup v1)."),
    Wait("page_cache", "pages of a file to be read or written back", "kernel",
         "See iostat -x, and vmstat for the page cache."),
    Wait("network_filesystem", "a network file system's server", "kernel",
         "See nfsiostat or the server."),
    Wait("swap", "memory to be read back from swap", "limit",
         "Give the machine or the cgroup more memory."),
    Wait("reclaim", "memory to be freed", "limit",
         "Give the machine or the cgroup (memory.high, memory.max; memory.limit_in_bytes of v1)"
         " more memory."),
    Wait("mmap_lock", "its process's lock of the address space", "program",
         "Fewer mmap, munmap and page faults from other threads at the same time help.",
         by_others="See what that does: reading /proc/PID/smaps takes the lock, for example."),
    Wait("kernel_lock", "a lock in the kernel", "kernel",
         "Option --chains shows what the lock's owner did meanwhile."),
    Wait("frozen_filesystem", "a frozen file system", "person",
         "Thaw it: fsfreeze --unfreeze MOUNTPOINT"),
    Wait("file_lock", "a file lock", "other-process",
         "To see which processes have locks: grep lock: /proc/[0-9]*/fdinfo/*"),
    Wait("fuse", "a FUSE file system's server", "other-process"),
    Wait("userfaultfd", "a userfaultfd handler to fill a page", "other-process"),
    Wait("seccomp", "a seccomp supervisor to answer", "other-process"),
    Wait("fanotify", "a fanotify listener (as a virus scanner) to let it", "other-process",
         "Let it leave these files out."),
    Wait("rcu", "an RCU grace period", "kernel"),
    Wait("core_dump", "its core dump to be written", "program",
         "It has crashed: core_pattern says where the dump goes (core(5))."),
    Wait("futex", "a futex", "program", remark=True, least_share=TURNS_SHARE),
    Wait("pipe", "a pipe", "other-process", remark=True),
    Wait("socket_connect", "a peer to accept its connection", "other-process", remark=True),
    Wait("socket_receive", "data on a socket", "other-process", remark=True),
    Wait("socket_send", "room in a socket's buffer", "other-process", remark=True),
    Wait("eventfd", "an eventfd", "other-process", remark=True),
    Wait("notification", "notice of changes of files", "other-process", remark=True),
    Wait("child", "a child process", "other-process", remark=True),
    Wait("vfork", "a child to run its program", "other-process", remark=True),
    Wait("semaphore", "a System V semaphore or a message queue", "other-process", remark=True),
    Wait("terminal", "a terminal", "person", remark=True),
    Wait("ptrace", "the process that it traces", "other-process", remark=True),
    Wait("io_uring", "asynchronous requests (io_uring, AIO)", "kernel", remark=True),
    Wait("unknown", "what is not known", "kernel", remark=True),
    Wait("clock", "a time to pass", "program", in_rounds=True),
    Wait("poll", "events of its files", "program", remark=True, by_peers=True),
    Wait("epoll", "events of its files by epoll", "program", remark=True, by_peers=True),
    Wait("signal", "a signal", "other-process", in_rounds=True),
    Wait("short", "something briefly each time", "program", in_rounds=True),
)  # fmt: skip
"""Every reason but those that are states of their own: freeze."""

WITHOUT_REASON: tuple[SleepReason, ...] = ("unknown", "short")

PHRASES = {
    wait.reason: wait.phrase
    for wait in WAITS
    if not (wait.in_rounds or wait.by_peers) and wait.reason not in WITHOUT_REASON
}

WANTED: frozenset[SleepReason] = frozenset(
    wait.reason for wait in WAITS if not (wait.remark or wait.in_rounds or wait.by_peers)
)
"""Nobody waits so who has nothing to do."""

ADVICE = {wait.reason: wait.advice for wait in WAITS}
