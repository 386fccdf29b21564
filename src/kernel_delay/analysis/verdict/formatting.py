"""How threads, times and shares are written in a verdict."""

from collections.abc import Sequence

from kernel_delay.analysis.verdict.thread_roles import ovs_role
from kernel_delay.formatting import title_in
from kernel_delay.host.kernel_names import signal_name
from kernel_delay.model import ChainThread, NewestSignal, Sample, SyscallStats, Thread


def length(ns: int) -> str:
    """A time, in the unit that leaves a few digits before the point."""
    if ns >= 10_000_000_000:
        return f"{ns / 1e9:,.1f} s"
    return f"{ns / 1e6:,.1f} ms" if ns >= 1_000_000 else f"{ns / 1e3:,.1f} µs"


def where_from(sample: Sample, option: str) -> str | None:
    """Advise what shows the place in the program: an option; in a round, what its report has."""
    if sample.round is None:
        return option
    if not sample.syscall_events:
        return None
    return "SYSTEM CALLS BY STACK in its report shows where in the program it waited."


def look_for_whom(sample: Sample, thread: Thread) -> str | None:
    """Advise what may show whom the main thread of one process waits for."""
    if not _is_main_of_one(sample, thread):
        return None
    if thread.chain is not None:
        # That has all other ends, also of a poll of several, and who of these is stopped.
        return f"To see what it waits for now: kernel-delay where -p {sample.target.pid}"
    return f"To see whom it waits for: kernel-delay -p {sample.target.pid} --chains"


def look_for_place(sample: Sample, thread: Thread) -> str | None:
    """Advise what shows where in the program the main thread of one process sleeps."""
    if not _is_main_of_one(sample, thread):
        return None
    return f"To see where in the program: kernel-delay where -p {sample.target.pid}"


def _is_main_of_one(sample: Sample, thread: Thread) -> bool:
    is_one = sample.processes == 1 and sample.round is None
    return is_one and thread.tid == sample.target.pid


_SENDERS = {"itself": "its own process", "timer": "a timer", "kernel": "the kernel"}


def signal_and_sender(newest: NewestSignal) -> str:
    """Return the name of a signal, and who sent it."""
    if newest.origin != "process":
        sender = _SENDERS[newest.origin]
    elif newest.comm is not None:
        sender = f"{newest.comm} ({newest.pid})"
    elif newest.pid:
        sender = f"process {newest.pid}, which has exited"
    else:
        sender = "another process"
    return f"{signal_name(newest.signal)}, sent by {sender}"


def share(ns: int, whole_ns: int) -> str:
    """A share in percent; one that is not all is never rounded up to that."""
    return in_percent(ns / whole_ns if whole_ns else 0.0)


def in_percent(part: float) -> str:
    """The same of a part of 1."""
    return f"{min(100 * part, 99) if part < 1 else 100 * part:.0f} %"


def largest_part(ns: int, whole_ns: int) -> str:
    """What the largest part of a time is called: most of it from half of it on."""
    return "most of it" if 2 * ns >= whole_ns else "the longest part of it"


def listed(parts: Sequence[str]) -> str:
    """Several of a kind, one at least: a, b and c."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def percent(ns: int, sample: Sample) -> str:
    """A time and its share of the window, or of the round that the window is."""
    whole = "window" if sample.round is None else "round"
    return f"{length(ns)}, {share(ns, sample.window.duration_ns)} of the {whole}"


def name(sample: Sample, thread: Thread) -> str:
    """What a thread is called: by its role, where it is the main one or Open vSwitch's."""
    if thread.tid == sample.target.pid:
        return f"the main thread {thread.name} ({thread.tid})"
    role = ovs_role(sample, thread)
    return f"{role} {thread.name} ({thread.tid})" if role else f"{thread.name} ({thread.tid})"


def chain_thread(thread: ChainThread, own: int = 0) -> str:
    """What a thread of a wait chain is called: with its process, if that is another than `own`."""
    if not thread.tid and not thread.pid:
        return f"several processes named {thread.name}"
    if not thread.tid:
        return f"threads of {thread.name} ({thread.pid})"
    text = f"{thread.name} ({thread.tid})"
    if not thread.process or thread.pid in (0, own, thread.tid):
        return text
    return f"{text} of {thread.process} ({thread.pid})"


def work_unknown(sample: Sample, thread: Thread, *, in_futex: bool) -> tuple[str, ...]:
    """Say that the thread may have had work to do, and the title that its process gave itself.

    Of several processes the title stands before the sentence. Who waits in futex(2) may wait for
    a lock, and then is not idle.
    """
    title = _title(sample) if sample.processes == 1 and thread.tid == sample.target.pid else None
    unknown = "Whether it had work to do is not known."
    if in_futex:
        unknown = "Whether it waited for a lock or for work is not known."
    if lock_advice(sample, thread) is not None:
        unknown = "By its title it waits for a lock."
    if title is None:
        return (unknown,)
    return (f'The title of {thread.name} ({thread.tid}) is "{title}".', unknown)


# What a process that waits for a lock of its own kind puts behind its title, and what shows who has
# that: PostgreSQL, src/backend/storage/lmgr/lock.c:WaitOnLock(), and "Viewing Locks".
_WAITS_FOR_A_LOCK = " waiting"
_LOCK_ADVICE = {"postgres": "In PostgreSQL, pg_blocking_pids() shows which session has the lock."}


def lock_advice(sample: Sample, thread: Thread) -> str | None:
    """Advise what shows who has the lock that a main thread waits for by its process's title.

    None where no title says so.
    """
    if thread.tid != sample.target.pid:
        return None
    return lock_advice_by(sample.target.comm, title_in(sample.target.command_line))


def lock_advice_by(comm: str, title: str | None) -> str | None:
    """The same by the name and the title of a process."""
    if title is None or not title.endswith(_WAITS_FOR_A_LOCK):
        return None
    return _LOCK_ADVICE.get(comm)


# Counts of so much more than the window say of which time they are.
_BEYOND_SHARE = 0.1


def counted_for(sample: Sample, counted_ns: int) -> tuple[str, ...]:
    """Say of which time counts are, where that is more than the window."""
    if counted_ns <= (1 + _BEYOND_SHARE) * sample.window.duration_ns:
        return ()
    return (f"The counts are of the {length(counted_ns)} around the window.",)


def pmd_work(sample: Sample, thread: Thread) -> tuple[str, ...]:
    """Say what a PMD thread did in the window; nothing of another thread.

    The share of busy cycles is left out: while it has no CPU its cycles are counted on.
    """
    pmd = thread.pmd
    if pmd is None:
        return ()
    longest = ""
    if pmd.longest_ns is not None:
        longest = f"; the longest took {length(pmd.longest_ns)} or more"
    did = f"It received {pmd.packets:,} packets in {pmd.iterations:,} iterations{longest}."
    return did, *counted_for(sample, pmd.counted_ns)


WITHOUT_DELAY = "Without this delay,"
"""Begins the sentence on how long an interval would have taken."""


# A sentence has no room for more. A title begins with which process it is, and ends with what that
# does.
_TITLE_WIDTH = 60
_TITLE_END = 20


def _title(sample: Sample) -> str | None:
    """What the process wrote in place of its arguments, without its name; None if nothing."""
    title = title_in(sample.target.command_line)
    return None if title is None else _cut(title.removeprefix(f"{sample.target.comm}:").strip())


def quoted(title: str) -> str:
    """Return the title of another process, in quotes, as long as a sentence has room for."""
    return f'"{_cut(title)}"'


def _cut(title: str) -> str:
    if len(title) <= _TITLE_WIDTH:
        return title
    return f"{title[: _TITLE_WIDTH - _TITLE_END - 1].rstrip()}…{title[-_TITLE_END:].lstrip()}"


def also(sample: Sample, others: tuple[Thread, ...]) -> str:
    """How many more threads it hit, in parentheses; nothing if none."""
    if not others:
        return ""
    if len(others) + 1 == len(sample.threads):
        return " (and all other threads of the process)"
    return f" ({_other_threads(others)} too)"


def and_others(others: tuple[Thread, ...]) -> str:
    """How many more threads did the same; nothing if none."""
    return f" and {_other_threads(others)}" if others else ""


def _other_threads(others: tuple[Thread, ...]) -> str:
    return f"{len(others)} other thread{'s' if len(others) > 1 else ''}"


def call(stats: SyscallStats) -> str:
    """What a system call is called."""
    return stats.name or f"system call {stats.number}"


def page_faults(count: int) -> str:
    """Page faults with their number."""
    return f"{count:,} page fault{'' if count == 1 else 's'}"


# Less often a second, a limit of memory that is reached costs next to nothing.
LIMIT_REACHED_PER_S = 100


def memory_limit(sample: Sample, *, seldom_too: bool = False) -> tuple[str, ...]:
    """Say that memory was freed for a cgroup's limit, and how often; else nothing if seldom."""
    limit = sample.system_state.memory if sample.system_state else None
    if limit is None:
        return ()
    if not seldom_too and limit.hits * 1e9 < LIMIT_REACHED_PER_S * sample.window.duration_ns:
        return ()
    return (
        f"Meanwhile its cgroup's limit of memory, {limit.limit_bytes / 2**20:,.1f} MiB of"
        f" {limit.path}, was reached {limit.hits:,} times.",
    )
