"""What PMD threads did between two answers of ovs-vswitchd, by thread."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from kernel_delay.model import PmdStats, RxQueue, Thread
from kernel_delay.openvswitch.pmds.answers import (
    COUNTS,
    CYCLES,
    PERFORMANCE,
    RX_QUEUES,
    UPCALL_ROUNDING_NS,
    PmdCounters,
    PmdCycles,
    parse_cycles,
    parse_performance,
    parse_rx_queues,
)
from kernel_delay.openvswitch.unixctl import Answers

# As of pmd-c03/id:12: lib/dpif-netdev.c:pmd_thread_main(), Open vSwitch 2.17 to 4.0.
_NAME = re.compile(r"pmd-c(\d{1,9})/id:")

# What rounding may hide of the length of upcalls.
MOST_ROUNDING = 0.1


def with_pmds(
    threads: Iterable[Thread], eldest: Collection[int], began: Answers, ended: Answers
) -> tuple[Thread, ...]:
    """Add to each PMD thread what was counted of it.

    `eldest` are the first threads of their names: those that these made have the same names.
    """
    threads = tuple(threads)
    stats = pmd_stats(began, ended)
    names = (_NAME.match(each.name) if each.tid in eldest else None for each in threads)
    cores = [int(name[1]) if name else None for name in names]
    # Another datapath may have a PMD thread on the same core; whose the counts are is not known.
    once = {core for core, count in Counter(cores).items() if count == 1}
    return tuple(
        structs.replace(thread, pmd=stats[core])
        if core is not None and core in stats and core in once
        else thread
        for thread, core in zip(threads, cores, strict=True)
    )


def pmd_stats(began: Answers, ended: Answers) -> Mapping[int, PmdStats]:
    """Return what each PMD thread did, by its core; of those that counted at both times."""
    had, has = (parse_performance(each.texts.get(PERFORMANCE, "")) for each in (began, ended))
    old, new = (parse_cycles(each.texts.get(CYCLES, "")) for each in (began, ended))
    polled, polls = (parse_rx_queues(each.texts.get(RX_QUEUES, "")) for each in (began, ended))
    pollers = {(each.port, each.queue): core for core, all_ in polled.items() for each in all_}
    return {
        core: structs.replace(
            found,
            busy_share=_busy_share(old.get(core), new.get(core)),
            rx_queues=tuple(_rx_queue(each, core, pollers) for each in polls.get(core, ())),
        )
        for core, after in has.items()
        if core in had and (found := _stats(had[core], after)) is not None
    }


def _stats(before: PmdCounters, after: PmdCounters) -> PmdStats | None:
    """Return the difference; None where the counters began anew."""
    since = {name: getattr(after, name) - getattr(before, name) for name in COUNTS}
    if any(count < 0 for count in since.values()):
        return None
    return PmdStats(
        **since,
        upcall_ns=_upcall_ns(before, after),
        longest_ns=_longest_ns(before, after),
    )


def _upcall_ns(before: PmdCounters, after: PmdCounters) -> int | None:
    """Return how long the upcalls took; None where that is not measured, or rounding hides it."""
    spent_ns = after.upcall_ns - before.upcall_ns
    rounding_ns = UPCALL_ROUNDING_NS * (before.upcalls + after.upcalls)
    return spent_ns if spent_ns > 0 and rounding_ns <= MOST_ROUNDING * spent_ns else None


def _longest_ns(before: PmdCounters, after: PmdCounters) -> int | None:
    """Return what the longest iteration took at least; None where that is not measured."""
    if not after.cycles_per_s or len(before.lengths) != len(after.lengths):
        return None
    longest = None
    for (_, had), (cycles, has) in zip(before.lengths, after.lengths, strict=True):
        if has > had:
            longest = round(cycles / after.cycles_per_s * 1e9)
    return longest


def _busy_share(before: PmdCycles | None, after: PmdCycles | None) -> float | None:
    if before is None or after is None:
        return None
    busy, idle = after.busy - before.busy, after.idle - before.idle
    return busy / (busy + idle) if busy >= 0 and idle >= 0 and busy + idle else None


def _rx_queue(queue: RxQueue, core: int, pollers: Mapping[tuple[str, int], int]) -> RxQueue:
    """Say which thread polled a queue before, if it was another one."""
    poller = pollers.get((queue.port, queue.queue), core)
    return queue if poller == core else structs.replace(queue, moved_from_core=poller)
