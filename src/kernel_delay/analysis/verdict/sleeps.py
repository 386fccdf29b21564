"""Rules on where a thread slept: what nobody wants to wait for, and what may be idleness."""

from msgspec import Struct

from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, call, length, name, share
from kernel_delay.model import Sample, Sleep, SleepReason, SyscallStats, Thread, Waker, Who

# One part in twenty is what a user notices as slower.
WANTED_SHARE = 0.05

# A thread that waits for others half of its time may well have nothing to do.
IDLE_SHARE = 0.5

# Who ended so much of what a thread slept for is told: interrupts ended the rest, or timeouts.
TOLD_SHARE = 0.25

# Two threads that take turns, as by an interpreter's lock, wait for half of the time each, but
# for what else keeps them.
TURNS_SHARE = 0.3


class Wait(Struct, frozen=True):
    """What a reason to sleep means: in words, whose doing it is, and what helps.

    A `remark`: it may be what the thread is there for.
    """

    reason: SleepReason
    phrase: str
    who: Who
    advice: str | None = None
    remark: bool = False
    least_share: float | None = None


WAITS = (
    Wait("disk", "a disk", "kernel",
         "see iostat -x for the device, who else uses it, and its cgroup's limit (io.max)"),
    Wait("page_cache", "pages of a file to be read or written back", "kernel",
         "see iostat -x, and vmstat for the page cache"),
    Wait("network_filesystem", "a network file system's server", "kernel",
         "see nfsiostat or the server"),
    Wait("swap", "memory to be read back from swap", "limit",
         "give the machine or the cgroup more memory"),
    Wait("reclaim", "memory to be freed", "limit",
         "give the machine or the cgroup (memory.high, memory.max) more memory"),
    Wait("mmap_lock", "its process's lock of the address space", "program",
         "fewer mmap, munmap and page faults from other threads at the same time help"),
    Wait("kernel_lock", "a lock in the kernel", "kernel"),
    Wait("frozen_filesystem", "a frozen file system", "person", "thaw it: fsfreeze --unfreeze"),
    Wait("file_lock", "a file lock", "other-process", "see /proc/locks for who has it"),
    Wait("fuse", "a FUSE file system's server", "other-process"),
    Wait("userfaultfd", "a userfaultfd handler to fill a page", "other-process"),
    Wait("seccomp", "a seccomp supervisor to answer", "other-process"),
    Wait("fanotify", "a fanotify listener (as a virus scanner) to let it", "other-process",
         "have it leave these files out"),
    Wait("rcu", "an RCU grace period", "kernel"),
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
    Wait("io_uring", "requests of io_uring", "kernel", remark=True),
)  # fmt: skip
"""Every reason but those that are a thread's own wish or mere waiting for work: clock, poll,
epoll, signal; and those that are states of their own: freeze; and unknown."""

PHRASES = {wait.reason: wait.phrase for wait in WAITS}


def _slept(thread: Thread, reason: SleepReason) -> list[Sleep]:
    return [sleep for sleep in thread.sleeps if sleep.reason == reason]


def wait_rule(wait: Wait) -> Rule:
    """The rule that finds waits of one kind."""

    def lost_ns(sample: Sample, thread: Thread) -> int:
        slept = _slept(thread, wait.reason)
        is_main = thread.tid == sample.target.pid
        if wait.remark and not is_main and not any(sleep.wakers for sleep in slept):
            # It was not woken within the window: idle, for all that is known.
            return 0
        if wait.remark and thread.kernel_worker:
            # Until there is work for it: io_uring/io-wq.c:io_wq_worker(), io_uring/sqpoll.c, 6.18.
            return 0
        ns = sum(sleep.ns for sleep in slept)
        return ns - _known_locks_ns(thread) if wait.reason == "futex" else ns

    def say(case: Case) -> Statement:
        return _say(case, wait)

    return Rule(
        name=f"wait_{wait.reason}",
        least_share=wait.least_share or (IDLE_SHARE if wait.remark else WANTED_SHARE),
        lost_ns=lost_ns,
        say=say,
        looks_at=f"where in the kernel it slept (waits for {wait.phrase}), and who woke it",
        silent_on="waits too short to look at; who will end a wait that is still going on",
        remark=wait.remark,
        tells_more=lambda thread: _main_waker(_slept(thread, wait.reason)) is not None,
    )


def _known_locks_ns(thread: Thread) -> int:
    return sum(wait.ns for wait in thread.lock_waits)


def _say(case: Case, wait: Wait) -> Statement:
    sample, thread = case.sample, case.thread
    slept = _slept(thread, wait.reason)
    calls = sorted({sleep.syscall for sleep in slept if sleep.syscall})
    text = f"{name(sample, thread)} waited for {wait.phrase}"
    text += f" in {', '.join(calls[:3])}" if calls else ""
    text += f" for {case.of_window}{also(sample, case.others)}"
    evidence = {"waits": sum(sleep.count for sleep in slept)}
    who, advice = wait.who, wait.advice
    waker = _main_waker(slept)
    if waker is not None:
        text += f"; {waker.text(sample)}"
        evidence["waker_tid"] = waker.tid
        if who == "other-process" and waker.pid == sample.target.pid:
            who = "program"
        if wait.reason == "futex" and waker.pid == sample.target.pid:
            text += _interpreters_lock(sample)
            advice = _WHERE_FROM
    longest = max((sleep.max_ns for sleep in slept), default=0)
    if longest and evidence["waits"] > 1:
        text += f"; the longest wait took {length(longest)}"
    # In a round it had: whoever has nothing to do polls.
    if wait.remark and sample.round is None:
        text += "; it may have had nothing else to do"
    return Statement(text, who, evidence, advice)


# Locks of no known owner: what is woken from where tells which.
_WHERE_FROM = "--wakers stacks shows from where in the program"


def _interpreters_lock(sample: Sample) -> str:
    """What a Python program's threads most often wait for: Python/ceval_gil.c, 3.2 to 3.14."""
    program = (sample.target.exe or "").rpartition("/")[2]
    return (
        ", as with Python's lock of the interpreter (GIL)" if program.startswith("python") else ""
    )


class _MainWaker(Struct, frozen=True):
    """The thread, or those of a name, that ended most; ids are 0 where they are several."""

    comm: str
    tid: int
    pid: int
    threads: int
    ended: str

    def text(self, sample: Sample) -> str:
        if self.threads > 1:
            who = f"{self.threads} threads called {self.comm}"
        else:
            who = f"{self.comm} ({self.tid})"
        if self.pid == sample.target.pid:
            who += " of the same process"
        elif self.pid:
            who += f" of process {self.pid}"
        return f"{who} ended {self.ended} of that"


def _main_waker(slept: list[Sleep]) -> _MainWaker | None:
    """Who ended most, of threads; None where that is too little to be told.

    Of many that have one name, as each request's process, none matters by itself.
    """
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    all_ns = sum(waker.ns for waker in wakers)
    of_name: dict[str, list[Waker]] = {}
    for waker in wakers:
        if waker.kind == "thread" and waker.tid:
            of_name.setdefault(waker.comm, []).append(waker)
    comm = max(of_name, key=lambda name: sum(waker.ns for waker in of_name[name]), default=None)
    if comm is None or sum(waker.ns for waker in of_name[comm]) < TOLD_SHARE * all_ns:
        return None
    ns_of: dict[int, int] = {}
    for waker in of_name[comm]:
        ns_of[waker.tid] = ns_of.get(waker.tid, 0) + waker.ns
    tid = max(ns_of, key=lambda each: ns_of[each])
    if 2 * ns_of[tid] >= sum(ns_of.values()):
        pid = next(waker.pid for waker in of_name[comm] if waker.tid == tid)
        return _MainWaker(comm, tid, pid, 1, share(ns_of[tid], all_ns))
    pids = {waker.pid for waker in of_name[comm]}
    pid = pids.pop() if len(pids) == 1 else 0
    return _MainWaker(comm, 0, pid, len(ns_of), share(sum(ns_of.values()), all_ns))


WAIT_RULES = tuple(wait_rule(wait) for wait in WAITS)


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


def _unexplained_ns(thread: Thread, stats: SyscallStats) -> int:
    """What is known of the sleep in a call only by the call's name."""
    explained = sum(
        sleep.ns
        for sleep in thread.sleeps
        if sleep.syscall == stats.name and sleep.reason not in ("unknown", "short")
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
    return sum(ns for ns, _ in _sleeping_calls(thread))


def _say_kernel_sleep(case: Case) -> Statement:
    most_ns, stats = _sleeping_calls(case.thread)[0]
    text = (
        f"{name(case.sample, case.thread)} slept in calls that are not made to wait (a device, a"
        f" lock in the kernel, a full buffer) for {case.of_window}{also(case.sample, case.others)};"
        f" most of it in {call(stats)}, {length(most_ns)}"
    )
    return Statement(text, "kernel")


KERNEL_SLEEP = Rule(
    name="kernel_sleep",
    least_share=WANTED_SHARE,
    lost_ns=_kernel_sleep_ns,
    say=_say_kernel_sleep,
    looks_at="sleep in calls that are not made to wait, where the kernel's stack gives no reason",
    silent_on="what the thread waited for: the call's name is all that is known",
)
