"""The parts of a wait chain: whom they lead to, and what that did."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kernel_delay.analysis.verdict.formatting import chain_thread, length, listed
from kernel_delay.analysis.verdict.rule import Case
from kernel_delay.analysis.verdict.wait_reasons import PHRASES
from kernel_delay.model import ChainPart, ChainState, ChainThread, Sample, SleepReason, Thread

# One thread of a process is named alone if it is that of so many times the waits of each other one.
ONE_TIMES = 2

# A state of a thread is named from that part of the waits on, and a call.
NAMED_SHARE = 0.1

# States of one thread that are named.
MOST_STATES = 3

# A thread of the own process is named if so much of the waits was for it.
AWAITED_SHARE = 0.5


def awaited_parts(sample: Sample, thread: Thread) -> Sequence[ChainPart]:
    """Return the parts of a thread's chain but those of a server that had no request."""
    parts = thread.chain.parts if thread.chain is not None else ()
    return [part for part in parts if not _is_idle(sample, part)]


def idle_parts(sample: Sample, thread: Thread) -> Sequence[ChainPart]:
    """Return the parts in which a server had no request."""
    parts = thread.chain.parts if thread.chain is not None else ()
    return [part for part in parts if _is_idle(sample, part)]


def idle_ns(sample: Sample, thread: Thread) -> int:
    """Return how long it had none, in ns."""
    return sum_ns(idle_parts(sample, thread)) if thread.chain is not None else 0


def _is_idle(sample: Sample, part: ChainPart) -> bool:
    """In a round a thread has something to do."""
    return part.idle and sample.round is None


Process = tuple[int, str]


def process_of(thread: ChainThread) -> Process:
    """Return its process: of one that is not known, or of several, the name."""
    return thread.pid, "" if thread.pid else thread.name


def of_main_process(
    sample: Sample, parts: Iterable[ChainPart], least_ns: float
) -> Sequence[ChainPart]:
    """Return those that end in the process of most: of one thread, if that stands out.

    A server may have a thread for each connection: together they are waited for. Threads of the
    sample's own process are apart.

    Args:
        sample: The sample.
        parts: Parts with threads.
        least_ns: What one thread has at least, in ns. Else those of its process are returned.
    """
    of_process: dict[tuple[Process, int], list[ChainPart]] = defaultdict(list)
    of_thread: dict[tuple[Process, int], list[ChainPart]] = defaultdict(list)
    for part in parts:
        end = part.threads[-1]
        is_alone = end.pid in (0, sample.target.pid)
        of_process[process_of(end), end.tid if is_alone else 0].append(part)
        of_thread[process_of(end), end.tid].append(part)
    main = max(of_process.values(), key=sum_ns, default=[])
    process = process_of(main[0].threads[-1]) if main else None
    threads = [each for (its, _), each in of_thread.items() if its == process]
    most, *others = sorted(threads, key=sum_ns, reverse=True) or [main]
    second_ns = sum_ns(others[0]) if others else 0
    is_one = bool(most) and most[0].threads[-1].tid > 0
    is_one = is_one and sum_ns(most) >= max(least_ns, ONE_TIMES * second_ns)
    return most if is_one else main


def as_one_thread(threads: Iterable[ChainThread]) -> ChainThread:
    """Return the one that all are, or the threads of their process."""
    first, *others = dict.fromkeys(threads)
    return replace(first, tid=0, name=first.process or first.name) if others else first


def way_of(parts: Sequence[ChainPart]) -> tuple[ChainThread, ...]:
    """Return the way of the longest part, with the threads of the ways by the same processes."""
    pids = [each.pid for each in parts[0].threads]
    alike = [part.threads for part in parts if [each.pid for each in part.threads] == pids]
    *hops, _ = (as_one_thread(at_hop) for at_hop in zip(*alike, strict=True))
    return (*hops, as_one_thread(part.threads[-1] for part in parts))


def by_state(parts: Sequence[ChainPart]) -> list[ChainPart]:
    """Return what the root did, the longest first: each has the object of its longest part."""
    if not parts:
        return []
    found: dict[tuple[ChainState, SleepReason, ChainThread | None], list[ChainPart]]
    found = defaultdict(list)
    for part in parts:
        # Whoever stopped it is to blame for that alone.
        stopper = part.by if part.state == "stopped" else None
        found[part.state, part.reason, stopper].append(part)
    way = way_of(parts)
    states = (replace(_as_one(each), threads=way) for each in found.values())
    return sorted(states, key=lambda part: -part.ns)


def _as_one(parts: Sequence[ChainPart]) -> ChainPart:
    """One part for those of a state. Who had the CPU is named if that is so for half of it."""
    ns = sum_ns(parts)
    main = max(parts, key=lambda part: (_object(part), part.ns))
    if main.state == "runnable" and 2 * main.ns < ns:
        main = replace(main, by=None)
    return replace(main, ns=ns)


def _object(part: ChainPart) -> bool:
    return (part.by or part.cgroup or part.device) is not None


def sum_ns(parts: Sequence[ChainPart]) -> int:
    """Return how long the parts are in all, in ns."""
    return sum(part.ns for part in parts)


def activity(part: ChainPart) -> str:
    """What the thread, or the threads, at the end of a part did: a clause without its subject."""
    text = _state(part)
    return text if part.threads[-1].tid else re.sub("^was ", "were ", text)


def _state(part: ChainPart) -> str:
    by = chain_thread(part.by) if part.by is not None else None
    if part.state == "throttled":
        return f"was throttled by the quota of {part.cgroup}" if part.cgroup else "was throttled"
    if part.state == "frozen":
        return f"was frozen by the cgroup {part.cgroup}" if part.cgroup else "was frozen"
    if part.state == "stopped":
        return f"was stopped by {by}" if by else "was stopped"
    if part.state == "runnable":
        return f"had no CPU, which most often {by} had," if by else "had no CPU"
    if part.state == "blocked":
        if part.reason == "clock":
            return "slept on a timer"
        if part.device is not None and part.reason in PHRASES:
            return f"waited for {PHRASES[part.reason]}, of the device {part.device},"
        return f"waited for {PHRASES[part.reason]}" if part.reason in PHRASES else "slept"
    return "was on a CPU"


def key_of(thread: ChainThread) -> int:
    """Return a number of its own for each thread, and for several of one process."""
    return thread.tid or -thread.pid


def awaited_thread(case: Case) -> Iterator[str]:
    """Say which thread of the process it waited for by its wait chain, and what that did."""
    chain, own = case.thread.chain, case.sample.target.pid
    of_thread: dict[int, list[ChainPart]] = {}
    for part in chain.parts if chain is not None else ():
        if part.threads and part.threads[0].pid == own and part.threads[0].tid:
            of_thread.setdefault(part.threads[0].tid, []).append(part)
    parts = max(of_thread.values(), key=sum_ns, default=[])
    if not parts or sum_ns(parts) < AWAITED_SHARE * case.lost_ns:
        return
    first = parts[0].threads[0]
    who = f"{first.name} ({first.tid})"
    yield f"It waited for {who} for {length(sum_ns(parts))}."
    did = [part for part in parts if len(part.threads) == 1 and part.state != "unknown"]
    said = [
        f"{activity(part)} for {length(part.ns)}"
        for part in by_state(did)
        if part.ns >= NAMED_SHARE * sum_ns(parts)
    ]
    if said:
        yield f"Meanwhile {who} {listed(said[:MOST_STATES])}."
