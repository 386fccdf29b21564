"""Is the kernel to blame? Each rule is a pure function of a Sample.

A rule looks at every thread for one thing that keeps a thread from its work,
and makes one sentence of the thread that it hit worst. Shares are of the
window. Without accounting there is nothing to judge.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from kernel_delay.model import Finding, Sample, SyscallStats, Thread, ThreadTime

# The longest that a healthy machine takes to give a woken thread a CPU, and
# more: in a window of a millisecond or less one such wait is a large share.
NEGLIGIBLE_NS = 100_000

# One part in twenty is what a user notices as slower. A thread of an idle
# process, that wakes a few times a second, has a hundredth of that at most.
READY_SHARE = 0.05
LOCK_SHARE = 0.05
IRQ_SHARE = 0.05
FAULT_SHARE = 0.05
SLEEP_SHARE = 0.05

# In service nothing stops a process: where it is seen at all, it is meant.
STOPPED_SHARE = 0.01

# A thread that does I/O is there for making system calls; from a quarter of
# its time on, what the kernel does for it bounds what it gets done.
KERNEL_SHARE = 0.25

# From half of its time on, a thread's own work is what it is busy with.
USER_SHARE = 0.5

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
    )
)

Rule = Callable[[Sample], Finding | None]


def judge(sample: Sample) -> Sample:
    """Return the Sample with its verdict: what was found, worst first."""
    found = [finding for rule in RULES if (finding := rule(sample)) is not None]
    return replace(sample, verdict=tuple(sorted(found, key=lambda finding: -finding.share)))


def cpu_contention(sample: Sample) -> Finding | None:
    """A thread could run and had no CPU, since others had it."""
    worst = _worst(sample, lambda thread, time: time.ready_ns, READY_SHARE)
    if worst is None:
        return None
    thread, ready_ns, others = worst
    text = f"{_name(thread)} could run but had no CPU for {_of_window(sample, ready_ns)}{others}"
    if thread.cpu_taken_by:
        text += f"; {_takers(sample, thread, ready_ns)}"
    return _finding("cpu_contention", sample, thread, ready_ns, text, kernel=True)


def kernel_work(sample: Sample) -> Finding | None:
    """A thread was kept on a CPU by the kernel, at work on its system calls."""
    worst = _worst(sample, lambda thread, time: time.kernel_ns, KERNEL_SHARE)
    if worst is None:
        return None
    thread, kernel_ns, others = worst
    text = (
        f"the kernel worked for {_name(thread)}, on a CPU, for"
        f" {_of_window(sample, kernel_ns)}{others}"
    )
    calls = sorted(thread.syscalls, key=lambda call: -(call.on_cpu_ns or 0))
    shown = [f"{_call(call)} {_length(call.on_cpu_ns)}" for call in calls[:3] if call.on_cpu_ns]
    if shown:
        text += f"; most of it in {', '.join(shown)}"
    return _finding("kernel_work", sample, thread, kernel_ns, text, kernel=True)


def kernel_sleep(sample: Sample) -> Finding | None:
    """A thread slept in system calls that are not made to wait for someone."""

    def slept_ns(thread: Thread, time: ThreadTime) -> int:
        return sum(call.blocked_ns or 0 for call in _not_made_to_wait(thread))

    worst = _worst(sample, slept_ns, SLEEP_SHARE)
    if worst is None:
        return None
    thread, length_ns, others = worst
    call = max(_not_made_to_wait(thread), key=lambda call: call.blocked_ns or 0)
    text = (
        f"{_name(thread)} slept in calls that are not made to wait (a device, a lock in the"
        f" kernel, a full buffer) for {_of_window(sample, length_ns)}{others};"
        f" most of it in {_call(call)} {_length(call.blocked_ns)}"
    )
    return _finding("kernel_sleep", sample, thread, length_ns, text, kernel=True)


def lock_convoy(sample: Sample) -> Finding | None:
    """A thread waited for a lock that another thread of the process held."""
    worst = _worst(
        sample, lambda thread, time: sum(wait.ns for wait in thread.lock_waits), LOCK_SHARE
    )
    if worst is None:
        return None
    thread, length_ns, others = worst
    holder = thread.lock_waits[0]
    text = (
        f"{_name(thread)} waited for a lock (futex) of its own process for"
        f" {_of_window(sample, length_ns)}{others}; {holder.name} ({holder.tid}) held the one at"
        f" {holder.address:#x} for {_length(holder.ns)} of that"
    )
    return _finding("lock_convoy", sample, thread, length_ns, text, kernel=False)


def interrupt_load(sample: Sample) -> Finding | None:
    """Interrupts took the CPU while a thread was on it."""
    worst = _worst(sample, lambda thread, time: time.hard_irq_ns + time.soft_irq_ns, IRQ_SHARE)
    if worst is None:
        return None
    thread, length_ns, others = worst
    text = (
        f"interrupts took the CPU from under {_name(thread)} for"
        f" {_of_window(sample, length_ns)}{others}"
    )
    irqs = [(irq.total_ns, irq.name) for irq in thread.hard_irqs]
    irqs += [(irq.total_ns, f"soft {irq.name or irq.vector}") for irq in thread.soft_irqs]
    if irqs:
        most_ns, name = max(irqs)
        text += f"; most of it by {name}, {_length(most_ns)}"
    return _finding("interrupt_load", sample, thread, length_ns, text, kernel=True)


def stopped(sample: Sample) -> Finding | None:
    """A thread stood still by a signal or under a debugger."""
    worst = _worst(sample, lambda thread, time: time.stopped_ns, STOPPED_SHARE)
    if worst is None:
        return None
    thread, length_ns, others = worst
    text = (
        f"{_name(thread)} was stopped, by a signal or a debugger, for"
        f" {_of_window(sample, length_ns)}{others}"
    )
    return _finding("stopped", sample, thread, length_ns, text, kernel=False)


def page_faults(sample: Sample) -> Finding | None:
    """A thread's program was kept by page faults."""

    def faulted_ns(thread: Thread, time: ThreadTime) -> int:
        faults = thread.page_faults
        return faults.on_cpu_ns + faults.blocked_ns if faults else 0

    worst = _worst(sample, faulted_ns, FAULT_SHARE)
    if worst is None:
        return None
    thread, length_ns, others = worst
    assert thread.page_faults is not None
    text = (
        f"{thread.page_faults.count:,} page faults kept {_name(thread)} for"
        f" {_of_window(sample, length_ns)}{others}"
    )
    if thread.page_faults.blocked_ns:
        text += f", of which it slept {_length(thread.page_faults.blocked_ns)}"
    return _finding("page_faults", sample, thread, length_ns, text, kernel=True)


def user_work(sample: Sample) -> Finding | None:
    """A thread was busy with its own program."""
    worst = _worst(sample, lambda thread, time: time.user_ns, USER_SHARE)
    if worst is None:
        return None
    thread, length_ns, others = worst
    text = f"{_name(thread)} was in its own code for {_of_window(sample, length_ns)}{others}"
    kernels = [rule for rule in RULES if rule is not user_work]
    if not any(finding and finding.kernel for finding in (rule(sample) for rule in kernels)):
        share = _percent(length_ns, sample)
        text = f"the kernel is not to blame: {share} of the window was user code; {text}"
    return _finding("user_work", sample, thread, length_ns, text, kernel=False)


RULES: tuple[Rule, ...] = (
    cpu_contention,
    kernel_work,
    kernel_sleep,
    lock_convoy,
    interrupt_load,
    stopped,
    page_faults,
    user_work,
)


def _worst(
    sample: Sample, lost_ns: Callable[[Thread, ThreadTime], int], least_share: float
) -> tuple[Thread, int, str] | None:
    """The thread that lost most, how much, and how many others lost enough to be found.

    None if none lost as much as `least_share` of the window and was not negligible.
    """
    least_ns = max(NEGLIGIBLE_NS, least_share * sample.window.duration_ns)
    hit = [
        (lost, thread)
        for thread in sample.threads
        if thread.time is not None and (lost := lost_ns(thread, thread.time)) >= least_ns
    ]
    if not hit:
        return None
    lost, thread = max(hit, key=lambda pair: (pair[0], -pair[1].tid))
    others = len(hit) - 1
    also = f" ({others} other thread{'s' if others > 1 else ''} too)" if others else ""
    return thread, lost, also


def _finding(
    rule: str, sample: Sample, thread: Thread, lost_ns: int, text: str, *, kernel: bool
) -> Finding:
    share = lost_ns / sample.window.duration_ns
    return Finding(rule=rule, kernel=kernel, share=share, tid=thread.tid, text=text + ".")


def _takers(sample: Sample, thread: Thread, ready_ns: int) -> str:
    taker, own = thread.cpu_taken_by[0], {each.tid for each in sample.threads}
    share = f"{100 * taker.ns / ready_ns:.0f} % of that"
    if taker.comm == "idle" and not taker.tid:
        return f"for {share} the CPU was idle and had to wake up first"
    who = "a thread of the same process, " if taker.tid in own else ""
    return f"before it, {who}{taker.comm} ({taker.tid}) had the CPU for {share}"


def _not_made_to_wait(thread: Thread) -> Iterable[SyscallStats]:
    return [call for call in thread.syscalls if call.name in NOT_MADE_TO_WAIT]


def _name(thread: Thread) -> str:
    return f"{thread.name} ({thread.tid})"


def _call(call: SyscallStats) -> str:
    return call.name or f"system call {call.number}"


def _of_window(sample: Sample, ns: int) -> str:
    return f"{_length(ns)}, {_percent(ns, sample)} of the window"


def _percent(ns: int, sample: Sample) -> str:
    return f"{100 * ns / sample.window.duration_ns:.0f} %"


def _length(ns: int | None) -> str:
    ns = ns or 0
    return f"{ns / 1e6:,.1f} ms" if ns >= 1_000_000 else f"{ns / 1e3:,.1f} µs"
