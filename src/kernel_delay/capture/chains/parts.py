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
    """Add up parts that differ in which processes of one name they have, which are gone.

    A server may start one for each request. One that lives is still to be looked at: it keeps its
    PID. Of one that is the only one of its name nothing is asked.
    """
    pids: dict[str, set[int]] = defaultdict(set)
    for part in found:
        for each in filter(_is_process, (*part.threads, *_by(part))):
            pids[each.name].add(each.pid)
    gone = [set(filter(has_ended, each)) for each in pids.values() if len(each) > 1]
    short = {pid for each in gone if len(each) > 1 for pid in each}
    added: Counter[ChainPart] = Counter()
    for part, ns in found.items():
        threads, by = (_together(each, short) for each in (part.threads, _by(part)))
        added[replace(part, threads=threads, by=by[0] if by else None)] += ns
    return added


def _together(threads: tuple[ChainThread, ...], short: set[int]) -> tuple[ChainThread, ...]:
    return tuple(
        ChainThread(0, 0, each.name) if _is_process(each) and each.pid in short else each
        for each in threads
    )


def _by(part: ChainPart) -> tuple[ChainThread, ...]:
    return (part.by,) if part.by is not None else ()


def _is_process(thread: ChainThread) -> bool:
    """Whether it is a process's first thread."""
    return 0 < thread.pid == thread.tid


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
