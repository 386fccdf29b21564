"""The parts of a thread's waits that are kept: they add up to its blocked time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter

from msgspec.structs import replace

from kernel_delay.model import ChainPart, ChainThread

# Of a thread's chain: the longest are kept, and the others are added up as not known.
MOST_PARTS = 16

# With more, so many keep their threads. The others of a process are added up.
MOST_OF_THREADS = MOST_PARTS // 2

_NOT_KNOWN = ChainPart((), "unknown", 0)


def exact_parts(
    found: Mapping[ChainPart, int], blocked_ns: int, has_ended: Callable[[int], bool]
) -> tuple[ChainPart, ...]:
    """Return the parts so that they add up to what was charged as blocked.

    Both read the clock at the same events, one just after the other. What is left is not known.

    Args:
        found: The parts, each without its length, and that, in ns.
        blocked_ns: What was charged, in ns.
        has_ended: Whether a process is gone by now.
    """
    parts = _with_short_processes_together(found, has_ended).most_common()
    # Who stands between first: many threads of a server may wait for the same one.
    for keeps_end in (True, False):
        if len(parts) > MOST_PARTS:
            parts = _by_process(parts, keeps_end=keeps_end)
    kept = [(part, ns) for part, ns in parts[:MOST_PARTS] if part != _NOT_KNOWN]
    left_ns = blocked_ns - sum(ns for _, ns in kept)
    while left_ns < 0:
        part, ns = kept[0]
        taken_ns = min(ns, -left_ns)
        kept[0] = part, ns - taken_ns
        left_ns += taken_ns
        kept.sort(key=itemgetter(1), reverse=True)
    kept = [*kept, (_NOT_KNOWN, left_ns)] if left_ns else kept
    return tuple(replace(part, ns=ns) for part, ns in kept if ns)


def _with_short_processes_together(
    found: Mapping[ChainPart, int], has_ended: Callable[[int], bool]
) -> Counter[ChainPart]:
    """Add up parts that end in processes of one name, which are gone.

    A server may start one for each request. One that lives is still to be looked at: it keeps its
    PID. Of one that is the only one of its name nothing is asked.
    """
    added = Counter(dict(found))
    of_name: dict[tuple[ChainThread, ...], list[ChainPart]] = defaultdict(list)
    for part in filter(_ends_in_a_process, found):
        of_name[_as_several(part.threads)].append(part)
    for several, parts in of_name.items():
        pids = {part.threads[-1].pid for part in parts}
        gone = {pid for pid in pids if has_ended(pid)} if len(pids) > 1 else set[int]()
        for part in parts if len(gone) > 1 else ():
            if part.threads[-1].pid in gone:
                added[replace(part, threads=several)] += added.pop(part)
    return added


def _as_several(threads: tuple[ChainThread, ...]) -> tuple[ChainThread, ...]:
    return (*threads[:-1], ChainThread(0, 0, threads[-1].name))


def _ends_in_a_process(part: ChainPart) -> bool:
    """Whether the last hop of several is a process's first thread."""
    return len(part.threads) > 1 and 0 < part.threads[-1].pid == part.threads[-1].tid


def _by_process(
    parts: list[tuple[ChainPart, int]], *, keeps_end: bool
) -> list[tuple[ChainPart, int]]:
    """Add up short parts whose threads are of the same processes, the longest sum first.

    A server may have a thread for each connection. The thread at the end of a chain is to be the
    same if `keeps_end`.
    """
    added = Counter(dict(parts[:MOST_OF_THREADS]))
    for each, ns in parts[MOST_OF_THREADS:]:
        part = each
        ends = part.threads[-1:] if keeps_end else ()
        threads = (*_processes(part.threads[: len(part.threads) - len(ends)]), *ends)
        if threads != part.threads and keeps_end:
            part = replace(part, threads=threads)
        elif threads != part.threads:
            part = ChainPart(threads, part.state, 0, part.reason, gap=part.gap, idle=part.idle)
        added[part] += ns
    return added.most_common()


def _processes(threads: tuple[ChainThread, ...]) -> Iterator[ChainThread]:
    """Yield the threads, with 0 for each ID that is not that of its process."""
    for each in threads:
        if not each.pid or each.tid == each.pid:
            yield each
        else:
            yield replace(each, tid=0, name=each.process or each.name)
