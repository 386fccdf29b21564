"""How threads, times and shares are written in a verdict."""

from kernel_delay.model import Sample, SyscallStats, Thread


def length(ns: int) -> str:
    """A time, in the unit that leaves a few digits before the point."""
    if ns >= 10_000_000_000:
        return f"{ns / 1e9:,.1f} s"
    return f"{ns / 1e6:,.1f} ms" if ns >= 1_000_000 else f"{ns / 1e3:,.1f} µs"


def where_from(sample: Sample, option: str) -> str | None:
    """What shows from where in the program: that option, but of `watch`, which has none."""
    if sample.round is None:
        return option
    if not sample.syscall_events:
        return None
    return "the report of its recording (-o) shows from where in the program"


def share(ns: int, whole_ns: int) -> str:
    """A share in percent; one that is not all is never rounded up to that."""
    value = 100 * ns / whole_ns if whole_ns else 0.0
    return f"{min(value, 99) if ns < whole_ns else value:.0f} %"


def percent(ns: int, sample: Sample) -> str:
    """A time and its share of the window, or of the round that the window is."""
    whole = "window" if sample.round is None else "round"
    return f"{length(ns)}, {share(ns, sample.window.duration_ns)} of the {whole}"


def name(sample: Sample, thread: Thread) -> str:
    """What a thread is called: by its role, where it is the main one or Open vSwitch's."""
    if thread.tid == sample.target.pid:
        return f"the main thread, {thread.name} ({thread.tid})"
    role = ovs_role(sample, thread)
    return f"{role} {thread.name} ({thread.tid})" if role else f"{thread.name} ({thread.tid})"


# How ovs-vswitchd names its threads: ovs_thread_create() in lib/ovs-thread.c, 3.5; the callers
# are in lib/dpif-netdev.c, lib/conntrack.c, lib/ovs-rcu.c and ofproto/ofproto-dpif-upcall.c.
_OVS_ROLES = {
    "handler": "the handler",
    "revalidator": "the revalidator",
    "pmd-c": "the PMD thread",
    "urcu": "the RCU thread",
    "ct_clean": "the connection tracker's cleaner",
}


def ovs_role(sample: Sample, thread: Thread) -> str | None:
    """What the thread does in an ovs-vswitchd, None in other processes or if not known."""
    if sample.target.comm != "ovs-vswitchd":
        return None
    return next(
        (role for prefix, role in _OVS_ROLES.items() if thread.name.startswith(prefix)), None
    )


def spins_by_design(sample: Sample, thread: Thread) -> bool:
    """Whether the thread is made to poll without ever sleeping, as a PMD thread is."""
    return ovs_role(sample, thread) == "the PMD thread"


def also(sample: Sample, others: tuple[Thread, ...]) -> str:
    """How many more threads it hit, in parentheses; nothing if none."""
    if not others:
        return ""
    if len(others) + 1 == len(sample.threads):
        return " (and all other threads of the process)"
    return f" ({_other_threads(others)} too)"


def in_turn(others: tuple[Thread, ...]) -> str:
    """How many more threads did the same one after the other; nothing if none."""
    if not others:
        return ""
    return f" and {_other_threads(others)}, in turn,"


def _other_threads(others: tuple[Thread, ...]) -> str:
    return f"{len(others)} other thread{'s' if len(others) > 1 else ''}"


def call(stats: SyscallStats) -> str:
    """What a system call is called."""
    return stats.name or f"system call {stats.number}"


# Less often a second, a limit of memory that is reached costs next to nothing.
LIMIT_REACHED_PER_S = 100


def memory_limit(sample: Sample, *, seldom_too: bool = False) -> str:
    """That memory had to be freed for a cgroup's limit, and how often; else nothing if seldom."""
    limit = sample.surroundings.memory if sample.surroundings else None
    if limit is None:
        return ""
    if not seldom_too and limit.hits * 1e9 < LIMIT_REACHED_PER_S * sample.window.duration_ns:
        return ""
    return (
        f"; meanwhile its cgroup's limit of memory, {limit.limit_bytes / 2**20:,.1f} MiB of"
        f" {limit.path}, was reached {limit.hits:,} times"
    )
