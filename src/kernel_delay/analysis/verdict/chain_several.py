"""The rule on wait chains with several roots, none of which half of the waits were for."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kernel_delay.analysis.verdict.chain_parts import (
    NAMED_SHARE,
    Process,
    activity,
    awaited_parts,
    by_state,
    process_of,
    sum_ns,
)
from kernel_delay.analysis.verdict.formatting import chain_thread, length, listed, name
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import IDLE_SHARE
from kernel_delay.analysis.verdict.wait_chains import (
    LOOK_AT,
    ROOT_SHARE,
    calls_of,
    explained_waits,
    is_root_wanted,
    look_at_children,
    work_of,
)
from kernel_delay.model import ChainPart, ChainThread, Sample, Thread

# Roots that are named.
MOST_ROOTS = 3


def _roots(sample: Sample, thread: Thread) -> list[list[ChainPart]]:
    """The parts of each process at the root, of each state one; those that take most first.

    None where one has half of the waits, or where all that have a share together have less, or
    where nothing is known of what they did.
    """
    if thread.chain is None:
        return []
    own, whole_ns = sample.target.pid, thread.chain.ns
    of_process: dict[Process, list[ChainPart]] = defaultdict(list)
    for part in awaited_parts(sample, thread):
        if any(each.pid != own for each in part.threads):
            of_process[process_of(part.threads[-1])].append(part)
    found = [each for each in of_process.values() if sum_ns(each) >= NAMED_SHARE * whole_ns]
    found.sort(key=sum_ns, reverse=True)
    is_several = len(found) > 1 and sum_ns(found[0]) < ROOT_SHARE * whole_ns
    is_enough = sum(map(sum_ns, found)) >= ROOT_SHARE * whole_ns
    is_known = any(part.state != "unknown" for each in found for part in each)
    return [by_state(each) for each in found] if is_several and is_enough and is_known else []


def _lost_ns(sample: Sample, thread: Thread) -> int:
    roots = _roots(sample, thread)
    lost_ns = sum(map(sum_ns, roots))
    is_long = lost_ns >= IDLE_SHARE * sample.window.duration_ns
    return lost_ns if is_long or (roots and is_root_wanted(sample, thread, roots[0])) else 0


def _say(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    assert thread.chain is not None
    roots, own = _roots(sample, thread), sample.target.pid
    wanted = is_root_wanted(sample, thread, roots[0])
    main = roots[0][0].threads
    advice = look_at_children(main, own)
    if advice is None and main[-1].pid != own:
        advice = f"{LOOK_AT} kernel-delay -p {main[-1].pid}"
    named = [_short(parts[0].threads[-1], own) for parts in roots[:MOST_ROOTS]]
    return Statement(
        f"{name(sample, thread)} waited for {listed(named)}{calls_of(thread)}",
        "other-process",
        {"roots": len(roots), "waited_ns": thread.chain.ns},
        (*_named(roots, own), *work_of(sample, thread, is_wanted=wanted)),
        advice,
        explains=frozenset(
            each for other in (thread, *case.others) for each in explained_waits(other)
        ),
        is_wanted=wanted,
    )


def _short(root: ChainThread, own: int) -> str:
    return chain_thread(root, own) if root.tid or root.pid else root.name


def _named(roots: Sequence[Sequence[ChainPart]], own: int) -> Iterator[str]:
    """What those of most did for the most part."""
    for parts in roots[:MOST_ROOTS]:
        main, whole_ns = parts[0], sum_ns(parts)
        root = main.threads[-1]
        waited = f"For {length(whole_ns)} it waited for {chain_thread(root, own)}"
        if main.state == "unknown":
            yield f"{waited}; the root of that wait is not known."
            continue
        did = f"{'it' if root.tid else 'they'} {activity(main)}"
        meanwhile = f" for {length(main.ns)}" if main.ns < whole_ns else " all the time"
        yield f"{waited}: {did}{meanwhile}."


WAIT_CHAIN_SEVERAL = Rule(
    name="wait_chain_several",
    least_share=WANTED_SHARE,
    lost_ns=_lost_ns,
    say=_say,
    measures="Several roots of a wait chain, none with half of the waits (`--chains`).",
    limits="Counts as `wait_chain` does.",
    remark=True,
)
