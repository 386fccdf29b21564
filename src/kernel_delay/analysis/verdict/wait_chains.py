"""The rules on wait chains: what the thread at their root did, and that a server had no request."""

from collections import Counter
from collections.abc import Iterator, Sequence

from kernel_delay.analysis.verdict.chain_parts import (
    NAMED_SHARE,
    activity,
    as_one_thread,
    awaited_parts,
    by_state,
    idle_ns,
    idle_parts,
    key_of,
    of_main_process,
    process_of,
    sum_ns,
)
from kernel_delay.analysis.verdict.formatting import (
    chain_thread,
    length,
    listed,
    lock_advice,
    name,
    share,
)
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE
from kernel_delay.analysis.verdict.rule import ASLEEP_SHARE, Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import IDLE_SHARE, handed_over, handing_over_ns
from kernel_delay.analysis.verdict.stopped_or_frozen import resume, thaw
from kernel_delay.analysis.verdict.wait_files import main_file
from kernel_delay.analysis.verdict.wait_reasons import ADVICE, WANTED
from kernel_delay.model import (
    RECEIVE_REASONS,
    ChainPart,
    ChainState,
    ChainThread,
    Sample,
    SleepReason,
    Thread,
    Who,
)

# One root is named if it is that of so much of all waits.
ROOT_SHARE = 0.5

IDLENESS_COUNTS = f"Where the thread may have been idle, it counts from {100 * IDLE_SHARE:g} % on."

# Clients that are named.
MOST_CLIENTS = 3

# With which a server gets requests. One that waits until its clients read does not call them.
_READS = frozenset(("read", "readv", "recvfrom", "recvmsg", "recvmmsg", "recv"))

# Of a client that was kept from its work it is said for how long.
_HELD: tuple[ChainState, ...] = ("stopped", "frozen", "throttled")

# Calls that make a child, or a thread.
_FORKS = frozenset(("clone", "clone3", "fork", "vfork"))

# What one sleeps for that has nothing to do.
_IDLE: frozenset[SleepReason] = frozenset(("clock", "signal", "terminal"))

# Calls that are named.
MOST_CALLS = 2

_WHO: dict[ChainState, Who] = {
    "running": "other-process",
    "runnable": "other-process",
    "throttled": "limit",
    "stopped": "person",
    "frozen": "person",
    "blocked": "other-process",
}

_ADVICE: dict[ChainState, str] = {
    "frozen": "Thaw it: cgroup.freeze of its cgroup, freezer.state of v1.",
    "throttled": "Raise the CPU quota (cpu.max; cpu.cfs_quota_us of v1) of its cgroup.",
}

LOOK_AT = "To see what it does:"
"""Begins the advice to measure the process at the end of a chain."""

_LOOK_AT = f"{LOOK_AT} kernel-delay -p {{pid}}"

LOOK_AT_CODE = f"{LOOK_AT} kernel-delay where -p {{pid}}"
"""Advises to look at the functions that a process is in."""


def _of_main_root(sample: Sample, thread: Thread) -> Sequence[ChainPart]:
    """The parts with the root that was waited for most, the longest first.

    The root is a thread, or several threads of one process. None where it is not known, too little
    of the waits, or the process's own and asked directly: other rules have the threads of one
    process.
    """
    if thread.chain is None:
        return ()
    awaited = awaited_parts(sample, thread)
    known = [part for part in awaited if part.threads and part.state != "unknown"]
    least_ns = ROOT_SHARE * thread.chain.ns
    parts = of_main_process(sample, known, least_ns)
    if sum_ns(parts) < least_ns:
        return ()
    threads = parts[0].threads
    is_own = all(each.pid == sample.target.pid for each in threads)
    return () if is_own and len(threads) < 2 else by_state(parts)


def is_root_wanted(sample: Sample, thread: Thread, parts: Sequence[ChainPart]) -> bool:
    """Whether the wait was surely for work: something held the root, or the thread wanted it.

    Args:
        sample: The sample.
        thread: The thread that waited.
        parts: What the root did, the longest first.
    """
    root = parts[0]
    if root.state in _HELD or is_surely_wanted(sample, thread):
        return True
    # A script may start programs that only wait, as sleep(1), where it has nothing to do.
    is_idle = root.state == "blocked" and root.reason in _IDLE
    return _runs_programs(thread) and root.state != "unknown" and not is_idle


def _runs_programs(thread: Thread) -> bool:
    """Whether it waited mostly for the end of children, and made about as many."""
    waited = [sleep for sleep in thread.sleeps if sleep.reason == "child"]
    waits = sum(sleep.count for sleep in waited)
    forks = sum(call.count for call in thread.syscalls if call.name in _FORKS)
    waited_ns = sum(sleep.ns for sleep in waited)
    is_most = 2 * waited_ns >= sum(sleep.ns for sleep in thread.sleeps)
    return is_most and 0 < waits <= 2 * forks


def is_surely_wanted(sample: Sample, thread: Thread) -> bool:
    """Whether no idle thread waits as this one did, or it asked for what it waited for.

    A server that has nothing to do waits for clients too, which run, sleep or have no CPU. In a
    round a thread has something to do.
    """
    if sample.round is not None or lock_advice(sample, thread) is not None:
        return True
    wanted_ns = sum(sleep.ns for sleep in thread.sleeps if sleep.reason in WANTED)
    wanted_ns += handing_over_ns(thread.sleeps)
    if wanted_ns and 2 * wanted_ns >= sum(sleep.ns for sleep in thread.sleeps):
        return True
    file = main_file(thread.sleeps)
    waits = sum(sleep.count for sleep in thread.sleeps)
    return file is not None and file.requests(sample, thread, waits) is not None


def calls_of(thread: Thread) -> str:
    """In which calls it slept most for others, for the end of a claim."""
    slept: Counter[str] = Counter()
    for sleep in thread.sleeps:
        if sleep.syscall and sleep.reason != "clock":
            slept[sleep.syscall] += sleep.ns
    least_ns = NAMED_SHARE * slept.total()
    calls = [call for call, ns in slept.most_common(MOST_CALLS) if ns >= least_ns]
    return f" in {', '.join(calls)}" if calls else ""


def _lost_ns(sample: Sample, thread: Thread) -> int:
    parts = _of_main_root(sample, thread)
    if not parts:
        return 0
    if (
        is_root_wanted(sample, thread, parts)
        or sum_ns(parts) >= IDLE_SHARE * sample.window.duration_ns
    ):
        return parts[0].ns
    return 0


def _say(case: Case) -> Statement:
    thread = case.thread
    assert thread.chain is not None
    parts = _of_main_root(case.sample, thread)
    main = parts[0]
    root = main.threads[-1]
    own = case.sample.target.pid
    who, it = (chain_thread(root, own), "it" if root.tid else "them")
    claim = f"{who} {activity(main)} while {name(case.sample, thread)} waited for {it}"
    wanted = is_root_wanted(case.sample, thread, parts)
    work = work_of(case.sample, thread, is_wanted=wanted)
    return Statement(
        f"{claim}{calls_of(thread)}",
        _WHO[main.state],
        {
            **({"root_tid": root.tid} if root.tid else {}),
            **({"root_pid": root.pid} if root.pid else {}),
            "hops": len(main.threads),
            "waited_ns": thread.chain.ns,
        },
        (*_chain(case.sample, thread, main), *_further(case.sample, thread, parts), *work),
        _advice(main, own),
        explains=explained_waits(case),
        is_wanted=wanted,
    )


def _advice(main: ChainPart, own: int) -> str | None:
    root = main.threads[-1]
    if main.traced:
        return "Continue it in its tracer, or detach that: a SIGCONT does not resume it."
    if main.state == "frozen" and main.freezers:
        return thaw(main.freezers)
    of_reason = ADVICE.get(main.reason) if main.state == "blocked" else None
    if of_reason is not None or main.state in ("frozen", "throttled"):
        # Recordings of before have no files of freezers: the claim names the cgroup.
        return of_reason or _ADVICE[main.state]
    if main.state == "blocked" and main.reason == "clock":
        return None
    if not root.pid:
        return look_at_children(main.threads, own)
    if main.state == "stopped":
        return resume(root.pid, is_sent=main.by is not None)
    look_at = LOOK_AT_CODE if main.state == "running" else _LOOK_AT
    # What it does itself is in this report.
    return look_at.format(pid=root.pid) if root.pid != own else None


def look_at_children(threads: Sequence[ChainThread], own: int) -> str | None:
    """Advise to measure processes of one name: who is before them is their parent, or asked them.

    None if no such processes are at the end. `own` is the measured process.
    """
    if threads[-1].tid or threads[-1].pid:
        return None
    *_, asking = (own, *(each.pid for each in threads if each.pid))
    return f"To see what they do: kernel-delay -p {asking} --children"


def work_of(sample: Sample, thread: Thread, *, is_wanted: bool) -> tuple[str, ...]:
    """Say that who waited may have been idle, as a server that no client asks is.

    Who waits to hand something over has work: then to whom is said, if that is known.
    """
    handed = handed_over(sample, thread)
    if handed is not None:
        return handed
    if is_wanted:
        return ()
    return (f"Whether {thread.name} ({thread.tid}) had work is not known.",)


def _root_of(sample: Sample, thread: Thread) -> int:
    parts = _of_main_root(sample, thread)
    return key_of(parts[0].threads[-1]) if parts else 0


def explained_waits(case: Case) -> frozenset[tuple[str, int]]:
    """Return the findings that the waits of the case's threads are by themselves."""
    return frozenset(
        (rule, thread.tid)
        for thread in (case.thread, *case.others)
        for rule in ("asleep", *(f"wait_{sleep.reason}" for sleep in thread.sleeps))
    )


def _chain(sample: Sample, thread: Thread, main: ChainPart) -> Iterator[str]:
    assert thread.chain is not None
    waited = length(thread.chain.ns)
    yield f"That is {share(main.ns, thread.chain.ns)} of the {waited} that it waited in all."
    yield from way(sample, thread, main.threads)


def way(sample: Sample, thread: Thread, threads: Sequence[ChainThread]) -> Iterator[str]:
    """All hops of a part, if there are several."""
    if len(threads) > 1:
        own = sample.target.pid
        hops = " → ".join(chain_thread(each, own) for each in threads)
        yield f"The chain: {thread.name} ({thread.tid}) → {hops}."


def _further(sample: Sample, thread: Thread, parts: Sequence[ChainPart]) -> Iterator[str]:
    """What the root did besides, and what is not known."""
    assert thread.chain is not None
    own, awaited = sample.target.pid, awaited_parts(sample, thread)
    main, *others = parts
    root = main.threads[-1]
    least_ns = NAMED_SHARE * thread.chain.ns
    named = [f"{activity(each)} for {length(each.ns)}" for each in others if each.ns >= least_ns][
        :2
    ]
    if named:
        yield f"Besides, {'the root' if root.tid else 'they'} {' and '.join(named)}."
    all_ns = sum_ns([part for part in awaited if _is_of_process(part, root)])
    if root.tid and root.pid != own and all_ns - sum_ns(parts) >= least_ns:
        process = f"{root.process or root.name} ({root.pid})"
        yield f"In all it waited for threads of {process} for {length(all_ns)}."
    unknown = [part for part in awaited if part.state == "unknown"]
    its = process_of(root)
    of_root = [each for each in unknown if each.threads and process_of(each.threads[-1]) == its]
    of_root_ns = sum_ns(of_root)
    if of_root_ns >= least_ns:
        process = f"{root.process or root.name} ({root.pid})" if root.pid else chain_thread(root)
        waited = f"It also waited for {process} for {length(of_root_ns)}"
        yield f"{waited}; the root of that wait is not known."
    of_others = [part for part in unknown if part.threads and part not in of_root]
    of_other = of_main_process(sample, of_others, least_ns)
    if sum_ns(of_other) >= least_ns:
        other = chain_thread(as_one_thread(part.threads[-1] for part in of_other), own)
        waited = f"For {length(sum_ns(of_other))} it waited for {other}"
        yield f"{waited}; the root of that wait is not known."
    unknown_ns = sum_ns([part for part in unknown if not part.threads])
    if unknown_ns >= least_ns:
        yield f"For {length(unknown_ns)} it is not known whom it waited for."
    if thread.chain.is_bounded:
        yield "Not all threads were followed: there were too many, or too many hops."


def _is_of_process(part: ChainPart, root: ChainThread) -> bool:
    """Whether a thread of the process of the root is at the end, and what it did is known."""
    return bool(part.threads) and part.state != "unknown" and part.threads[-1].pid == root.pid


WAIT_CHAIN = Rule(
    name="wait_chain",
    least_share=WANTED_SHARE,
    lost_ns=_lost_ns,
    say=_say,
    measures="The activity of the root of a wait chain (`--chains`): a thread, or threads of one"
    " process, that half of the waits were for.",
    limits=f"Does not detect for whom a server works. {IDLENESS_COUNTS}",
    remark=True,
    lost_to=_root_of,
)


def _say_idle(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    parts = idle_parts(sample, thread)
    clients: Counter[tuple[str, int]] = Counter()
    for part in parts:
        clients[_process(part.threads[0])] += part.ns
    named = [f"{client} ({pid})" for (client, pid), _ in clients.most_common(MOST_CLIENTS)]
    if len(clients) > MOST_CLIENTS:
        named.append(f"{len(clients) - MOST_CLIENTS:,} others")
    held = [
        f"{client} ({pid}) {activity(part)} for {length(part.ns)}."
        for part in parts
        for client, pid in (_process(part.threads[0]),)
        if len(part.threads) == 1
        and part.state in _HELD
        and part.ns >= NAMED_SHARE * sample.window.duration_ns
    ]
    whose = "Its client is" if len(clients) == 1 else "Its clients are"
    return Statement(
        f"{name(sample, thread)} waited for {_awaited(thread)}{calls_of(thread)}",
        "other-process",
        {"clients": len(clients)},
        (f"{whose} {listed(named)}.", *held[:1]),
        explains=frozenset(
            (f"wait_{reason}", each.tid)
            for each in (thread, *case.others)
            for reason in RECEIVE_REASONS
        ),
    )


def _awaited(thread: Thread) -> str:
    """What it got, if it read about as often as it waited."""
    waits = sum(sleep.count for sleep in thread.sleeps if sleep.reason in RECEIVE_REASONS)
    reads = sum(call.count for call in thread.syscalls if call.name in _READS)
    return "requests" if 2 * reads >= waits else "its clients"


def _process(thread: ChainThread) -> tuple[str, int]:
    return thread.process or thread.name, thread.pid


# Whoever has not sent a request is no cause.
IDLE_SERVER = Rule(
    name="idle_server",
    least_share=ASLEEP_SHARE,
    lost_ns=idle_ns,
    say=_say_idle,
    measures="Waits of a server for its clients (`--chains`).",
    limits="Not in `watch`.",
    remark=True,
)
