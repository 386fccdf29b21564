"""Rules on where a thread slept: what nobody wants to wait for, and what may be idleness."""

from collections.abc import Iterable

from msgspec import Struct

from kernel_delay.analysis.verdict.chain import SURE_SHARE, waker_story
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.waits import WAITS, WITHOUT_REASON, Wait
from kernel_delay.analysis.verdict.words import (
    also,
    call,
    in_turn,
    length,
    memory_limit,
    name,
    share,
    where_from,
)
from kernel_delay.model import Sample, Sleep, SleepReason, SyscallStats, Thread, Waker, Who

# One part in twenty is what a user notices as slower.
WANTED_SHARE = 0.05

# A thread that waits for others half of its time may well have nothing to do.
IDLE_SHARE = 0.5

# Who ended so much of what a thread slept for is told: interrupts ended the rest, or timeouts.
TOLD_SHARE = 0.25

# Calls that have something to hand over. Who waits in one does not lack work.
HANDING_OVER = frozenset(
    (
        *("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"),
        *("sendfile", "sendfile64", "send", "connect", "msgsnd", "mq_timedsend"),
        "mq_timedsend_time64",
    )
)

# Calls that move what is in a pipe into another or elsewhere, and what is elsewhere into a pipe:
# the kernel's functions tell which of both is waited for (fs/splice.c, fs/pipe.c, 5.14 to 6.18).
BOTH_WAYS = frozenset(("splice", "vmsplice", "tee"))
WAITS_FOR_ROOM = frozenset(("pipe_wait_writable", "wait_for_space", "opipe_prep"))


def _slept(thread: Thread, reason: SleepReason) -> list[Sleep]:
    return [
        sleep
        for sleep in thread.sleeps
        # Those that are told by their call alone are kernel_sleep's.
        if sleep.reason == reason
        and not (reason in WITHOUT_REASON and sleep.syscall in NOT_MADE_TO_WAIT)
    ]


def _is_wanted(sleep: Sleep) -> bool:
    """Whether no thread waits so that has nothing to do."""
    if sleep.syscall in BOTH_WAYS:
        return sleep.reason == "socket_send" or any(
            function.partition(".")[0] in WAITS_FOR_ROOM for function in sleep.stack
        )
    return sleep.syscall in HANDING_OVER or sleep.reason in ("socket_connect", "vfork")


_WHEN_ALONE = {
    (False, False): "",
    (True, False): ", in a round alone",
    (False, True): ", in a round, or where a thread of another process ended most",
}


def wait_rule(wait: Wait) -> Rule:
    """The rule that finds waits of one kind."""

    def lost_ns(sample: Sample, thread: Thread) -> int:
        slept = _slept(thread, wait.reason)
        is_main = thread.tid == sample.target.pid or sample.round is not None
        if wait.in_rounds and sample.round is None:
            return 0
        if wait.by_peers and sample.round is None and not _are_ended_by_a_peer(sample, slept):
            return 0
        if wait.reason == "unknown" and sample.round is None:
            slept = [sleep for sleep in slept if sleep.stack]
        if (
            wait.remark
            and not is_main
            and not any(sleep.wakers or _is_wanted(sleep) for sleep in slept)
        ):
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
        looks_at=f"where in the kernel it slept (waits for {wait.phrase}), and who woke it"
        + _WHEN_ALONE[wait.in_rounds, wait.by_peers],
        silent_on="waits too short to look at; who will end a wait that is still going on",
        remark=wait.remark,
        round_share=WANTED_SHARE,
        in_turn=wait.remark and wait.reason != "futex",
        tells_more=lambda thread: (
            _main_waker(_slept(thread, wait.reason)) is not None
            and not _is_among_locks(wait, thread)
        ),
    )


def _are_ended_by_a_peer(sample: Sample, slept: list[Sleep]) -> bool:
    """Whether one other process ended most: a server, or a client, that it waits for."""
    waker = _main_waker(slept)
    if waker is None or waker.pid in (0, sample.target.pid):
        return False
    return 2 * waker.ns >= sum(sleep.ns for sleep in slept)


def _known_locks_ns(thread: Thread) -> int:
    return sum(wait.ns for wait in thread.lock_waits)


# So much of what a thread slept in futex(2) may be for locks before it matters to the rest.
LOCKS_SHARE = 0.1


def _is_among_locks(wait: Wait, thread: Thread) -> bool:
    """Whether waits for locks of known owners are a part of these, and of who ended them."""
    if wait.reason != "futex":
        return False
    futex_ns = sum(sleep.ns for sleep in _slept(thread, "futex"))
    return _known_locks_ns(thread) > LOCKS_SHARE * futex_ns


def _say(case: Case, wait: Wait) -> Statement:
    sample, thread = case.sample, case.thread
    slept = [sleep for each in (thread, *case.in_turn) for sleep in _slept(each, wait.reason)]
    who_waited = name(sample, thread) + in_turn(case.in_turn)
    text = f"{who_waited} {_waited(wait, slept)} for {case.of_window}"
    text += also(sample, case.others)
    evidence = {"waits": sum(sleep.count for sleep in slept)}
    who, advice = wait.who, wait.advice
    among_locks = _is_among_locks(wait, thread)
    waker = None if among_locks else _main_waker(slept)
    if waker is not None:
        text += f"; {waker.text(sample)}"
        evidence["waker_tid"] = waker.tid
        who, advice = _of_waker(sample, wait, waker)
        if wait.reason == "futex" and waker.pid == sample.target.pid:
            text += _AS_WITH_GIL if _is_python(sample) and _may_be_turns(case, slept, waker) else ""
            advice = where_from(sample, _WHERE_FROM)
        story = waker_story(sample, waker.tid, waker.ns)
        text += f"; meanwhile it {story}" if story else ""
    elif wait.reason == "futex" and not among_locks and _is_python(sample):
        text += _switches(case, slept)
    around = sample.surroundings
    if wait.reason == "file_lock" and around is not None and around.lock_holder is not None:
        holder, pid = around.lock_holder
        among = ", among others," if around.lock_shared else ""
        text += f"; {holder} ({pid}){among} had it at the end"
        evidence["holder_pid"] = pid
    longest = max((sleep.max_ns for sleep in slept), default=0)
    if longest and evidence["waits"] > 1 and not among_locks:
        text += f"; the longest wait took {length(longest)}"
    if wait.reason in _OF_MEMORY:
        over_high = _is_mostly_in(slept, _HANDLE_OVER_HIGH)
        out_of_memory = _is_mostly_in(slept, _OOM_SYNCHRONIZE)
        text += _OVER_HIGH if over_high else ""
        text += _OUT_OF_MEMORY if out_of_memory else ""
        text += memory_limit(sample, seldom_too=over_high or out_of_memory)
    wanted_ns = sum(sleep.ns for sleep in slept if _is_wanted(sleep))
    if wait.remark and sample.round is None and 2 * wanted_ns < case.lost_ns:
        text += "; it may have had nothing else to do"
    return Statement(text, who, evidence, advice)


# What takes longer where there is no memory for it.
_OF_MEMORY = frozenset(("disk", "page_cache", "swap", "reclaim"))


# What makes a thread sleep whose cgroup has more: mm/memcontrol.c, 5.14 to 7.2.
_HANDLE_OVER_HIGH = "mem_cgroup_handle_over_high"
_OVER_HIGH = "; the kernel made it sleep as its cgroup had more than memory.high allows"

# Where it sleeps until its cgroup has room, as nothing is killed for that: mm/memcontrol-v1.c.
_OOM_SYNCHRONIZE = "mem_cgroup_oom_synchronize"
_OUT_OF_MEMORY = (
    "; its cgroup's limit of memory was reached, and nothing is killed to make room"
    " (memory.oom_control)"
)


def _is_mostly_in(slept: list[Sleep], name: str) -> bool:
    """Whether that function of the kernel is why for most of it, by the kernel's stacks."""
    ns = sum(
        sleep.ns for sleep in slept if any(function.endswith(name) for function in sleep.stack)
    )
    return ns > 0 and 2 * ns >= sum(sleep.ns for sleep in slept)


_ACCEPTS = frozenset(("accept", "accept4"))


def _waited(wait: Wait, slept: list[Sleep]) -> str:
    calls = sorted({sleep.syscall for sleep in slept if sleep.syscall})
    where = f" in {', '.join(calls[:3])}" if calls else ""
    stack = next((sleep.stack for sleep in slept if sleep.stack), ())
    if wait.reason == "unknown" and stack:
        return f"slept{where}, most in the kernel's {stack[0]},"
    if wait.reason == "socket_receive" and calls and _ACCEPTS.issuperset(calls):
        return f"waited for somebody to connect to it{where}"
    return f"waited for {wait.phrase}{where}"


def _of_waker(sample: Sample, wait: Wait, waker: "_MainWaker") -> tuple[Who, str | None]:
    """Whose doing a wait is, and what helps, where it is known who ended it."""
    if wait.who == "other-process" and waker.pid == sample.target.pid:
        return "program", wait.advice
    if wait.who == "program" and waker.pid and waker.pid != sample.target.pid:
        return "other-process", wait.by_others
    return wait.who, wait.advice


# Locks of no known owner: what is woken from where tells which.
_WHERE_FROM = "--wakers stacks shows from where in the program"


# What a Python program's threads most often wait for: Python/ceval_gil.c, 3.2 to 3.14.
_AS_WITH_GIL = ", as with Python's lock of the interpreter (GIL)"


def _is_python(sample: Sample) -> bool:
    return (sample.target.exe or "").rpartition("/")[2].startswith("python")


# sys.getswitchinterval(), if not set, and by how much a timer or a window's boundary is off.
_SWITCH_NS = 5_000_000
_SWITCH_SPREAD = 0.1


# Of waits for it that others end before they ask, some last until they ask: Python computes.
_ASKED_SHARE = 0.1


def _may_be_turns(case: Case, slept: list[Sleep], waker: "_MainWaker") -> bool:
    """Whether these can be waits for the interpreter's lock, which others had meanwhile.

    Others were in the program's own code for as long: a call that sleeps gives the lock away, so
    who waits for what another one gets from there, as by a queue, does not wait for the
    interpreter. Some waits lasted until it asks for the lock: code in C that has given it away
    keeps nobody waiting so.
    """
    ns, count = sum(sleep.ns for sleep in slept), sum(sleep.count for sleep in slept)
    if not count or ns / count >= (1 + _SWITCH_SPREAD) * _SWITCH_NS:
        return False
    asked_ns, _ = _timed_out(slept)
    if asked_ns < _ASKED_SHARE * waker.ns:
        return False
    others = [other for other in case.sample.threads if other.tid != case.thread.tid]
    return _outside_calls_ns(others) >= SURE_SHARE * waker.ns


def _timed_out(slept: list[Sleep]) -> tuple[int, int]:
    """How long waits took, and how many, that timers ended; 0 if not after that interval each."""
    timed = [waker for sleep in slept for waker in sleep.wakers if waker.kind == "hard_irq"]
    ns, count = sum(waker.ns for waker in timed), sum(waker.count for waker in timed)
    if not count or abs(ns / count - _SWITCH_NS) > _SWITCH_SPREAD * _SWITCH_NS:
        return 0, 0
    return ns, count


def _switches(case: Case, slept: list[Sleep]) -> str:
    """Say that it waited as long as Python has a thread wait before it asks for the lock.

    A timer ends that wait, and who has the lock gives it away at once, which ends the next
    (Python/ceval_gil.c:take_gil(), 3.2 to 3.14). Meanwhile others ran, or wanted to: who polls a
    queue as often has no part in that.
    """
    sample = case.sample
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    ns, count = _timed_out(slept)
    others = [waker for waker in wakers if waker.pid == sample.target.pid]
    if not others or not count:
        return ""
    if _ran_ns(other for other in sample.threads if other.tid != case.thread.tid) < ns:
        return ""
    return f"; a timer ended {count:,} waits, after {length(ns // count)} each{_AS_WITH_GIL}"


def _ran_ns(threads: Iterable[Thread]) -> int:
    """How long these were on a CPU, or could have been."""
    times = [thread.time for thread in threads if thread.time is not None]
    return sum(time.user_ns + time.kernel_ns + time.ready_ns for time in times)


def _outside_calls_ns(threads: Iterable[Thread]) -> int:
    """How much of that was not in system calls."""
    return sum(
        max(0, _ran_ns((thread,)) - sum(_in_call_ns(stats) for stats in thread.syscalls))
        for thread in threads
    )


def _in_call_ns(stats: SyscallStats) -> int:
    return (stats.on_cpu_ns or 0) + (stats.ready_ns or 0)


class _MainWaker(Struct, frozen=True):
    """The thread, or those of a name, that ended most; ids are 0 where they are several."""

    comm: str
    tid: int
    pid: int
    threads: int
    ended: str
    ns: int

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


def _main_waker(slept: list[Sleep], told_ns: int = 0) -> _MainWaker | None:
    """Who ended most, of threads; None where that is too little to be told.

    Of many that have one name, as each request's process, none matters by itself. A wait that is
    still going on, nobody has ended. `told_ns` is what was told of, if more.
    """
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    all_ns = max(sum(waker.ns for waker in wakers), sum(sleep.ns for sleep in slept), told_ns)
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
        return _MainWaker(comm, tid, pid, 1, share(ns_of[tid], all_ns), ns_of[tid])
    pids = {waker.pid for waker in of_name[comm]}
    pid = pids.pop() if len(pids) == 1 else 0
    ns = sum(ns_of.values())
    return _MainWaker(comm, 0, pid, len(ns_of), share(ns, all_ns), ns)


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
    return sum(ns for ns, _ in _sleeping_calls(thread))


def _say_kernel_sleep(case: Case) -> Statement:
    most_ns, stats = _sleeping_calls(case.thread)[0]
    text = (
        f"{name(case.sample, case.thread)} slept in calls that are not made to wait (a device, a"
        f" lock in the kernel, a full buffer) for {case.of_window}{also(case.sample, case.others)};"
        f" most of it in {call(stats)}, {length(most_ns)}"
    )
    unexplained = [
        sleep
        for sleep in case.thread.sleeps
        if sleep.syscall == stats.name and sleep.reason in WITHOUT_REASON
    ]
    waker = _main_waker(unexplained, most_ns)
    if waker is None:
        return Statement(text, "kernel")
    return Statement(f"{text}; {waker.text(case.sample)}", "kernel", {"waker_tid": waker.tid})


KERNEL_SLEEP = Rule(
    name="kernel_sleep",
    least_share=WANTED_SHARE,
    lost_ns=_kernel_sleep_ns,
    say=_say_kernel_sleep,
    looks_at="sleep in calls that are not made to wait, where the kernel's stack gives no reason,"
    " and who woke it",
    silent_on="what the thread waited for: the call's name, and who ended that, is all that is"
    " known",
)
