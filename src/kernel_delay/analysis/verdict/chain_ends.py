"""The rules on wait chains without one known root: who is at their ends, and what it does there."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from kernel_delay.analysis.verdict.chain_parts import (
    NAMED_SHARE,
    Process,
    activity,
    awaited_parts,
    by_state,
    key_of,
    of_main_process,
    process_of,
    sum_ns,
    way_of,
)
from kernel_delay.analysis.verdict.formatting import (
    chain_thread,
    length,
    listed,
    lock_advice_by,
    name,
    quoted,
    share,
)
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import IDLE_SHARE
from kernel_delay.analysis.verdict.wait_chains import (
    LOOK_AT,
    LOOK_AT_CODE,
    ROOT_SHARE,
    WAIT_CHAIN,
    calls_of,
    explained_waits,
    is_root_wanted,
    is_surely_wanted,
    look_at_children,
    way,
    work_of,
)
from kernel_delay.analysis.verdict.wait_files import NO_DELAY, main_file
from kernel_delay.model import ChainGap, ChainPart, ChainThread, HeldProcess, Sample, Thread

# Its own waits may show more.
_LOOK_AT = f"{LOOK_AT} kernel-delay -p {{pid}} --chains"

# Other processes that are named.
MOST_OTHERS = 3

# Roots that are named, where there are several.
MOST_ROOTS = 3

# Why the root is not known.
_REASONS: dict[ChainGap, str] = {
    "lasts": "nobody woke {who}, and no single process is known at its other end",
    "interrupt": "a timer, a device or a packet woke {who}",
    "threads": "any thread of {who} may have been waited for",
    "ran": "any thread of {who} may have been waited for",
    "hops": "there are too many hops",
    "not_followed": "{who} was not measured at that time",
    "serves": "{who} served others meanwhile",
    "for_whom": "{who} polled, and for whom is not known",
    "circle": "{who} waited for a thread of the chain",
}

_MAYBE_TOO_MANY = "{who} was not measured at that time, maybe as there were too many threads"

# One reason is said if it is that of so much, or else those two that are of most.
SURE_SHARE = 0.9
MOST_REASONS = 2

# Whoever was held for less of the window did something in it, for all that is known.
HELD_SHARE = 0.9


def _parts(sample: Sample, thread: Thread) -> Sequence[ChainPart]:
    """The parts that end with the process at the end of most of the waits, the longest first.

    Those of one thread, if nearly all are. None where that is too little of the waits.
    """
    if thread.chain is None:
        return ()
    awaited = awaited_parts(sample, thread)
    ends = [part for part in awaited if part.threads and part.gap is not None]
    least_ns = ROOT_SHARE * thread.chain.ns
    parts = of_main_process(sample, ends, least_ns)
    return sorted(parts, key=lambda part: -part.ns) if sum_ns(parts) >= least_ns else ()


def _lost_ns(sample: Sample, thread: Thread) -> int:
    parts = _parts(sample, thread)
    # Other rules have the threads of one process.
    if not parts or all(each.pid == sample.target.pid for each in parts[0].threads):
        return 0
    lost_ns = sum_ns(parts)
    is_long = lost_ns >= IDLE_SHARE * sample.window.duration_ns
    return lost_ns if is_long or is_surely_wanted(sample, thread) else 0


def _say(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    assert thread.chain is not None
    parts = _parts(sample, thread)
    main, threads, own = parts[0], way_of(parts), sample.target.pid
    end = threads[-1]
    who = chain_thread(end, own) if main.gap != "ran" else _process(end)
    claim = f"{name(sample, thread)} waited for {who}{calls_of(thread)}"
    if main.syscall is not None and len({part.syscall for part in parts}) == 1:
        it = "it" if end.tid else "them"
        waited = f"{name(sample, thread)} waited for {it}{calls_of(thread)}"
        claim = f"{who} slept in {main.syscall} while {waited}"
    least_ns = HELD_SHARE * sample.window.duration_ns
    held = [each for each in thread.chain.held if each.like == end.pid and each.ns >= least_ns]
    is_wanted = is_surely_wanted(sample, thread)
    work = work_of(sample, thread, is_wanted=is_wanted)
    advice = lock_advice_by(end.name, end.title)
    file = main_file(thread.sleeps)
    held_back = tuple(file.holding_back(sample)) if file is not None else ()
    if file is not None and file.is_of_nagle:
        advice = NO_DELAY
    if advice is None:
        advice = look_at_children(threads, own)
    if advice is None and end.pid not in (0, own):
        look_at = LOOK_AT_CODE if main.gap == "ran" else _LOOK_AT
        advice = look_at.format(pid=end.pid)
    return Statement(
        claim,
        "other-process",
        {
            **({"end_tid": end.tid} if end.tid else {}),
            **({"end_pid": end.pid} if end.pid else {}),
            "hops": len(threads),
            "waited_ns": thread.chain.ns,
        },
        (
            *_end(parts, end, is_bounded=thread.chain.is_bounded),
            *held_back,
            *_held(sample, held),
            *way(sample, thread, threads),
            *work,
        ),
        advice,
        explains=explained_waits(case),
        is_wanted=is_wanted,
    )


def _end_of(sample: Sample, thread: Thread) -> int:
    parts = _parts(sample, thread)
    return key_of(way_of(parts)[-1]) if parts else 0


def _end(parts: Sequence[ChainPart], end: ChainThread, *, is_bounded: bool) -> Iterator[str]:
    """What the last known one did for whom, and why the root is not known."""
    who, gap = chain_thread(end), parts[0].gap
    if end.tid:
        who = f"{end.name} ({end.tid})"
    elif not end.pid:
        who = "they"
    if end.title is not None:
        yield f"The title of {end.name} ({end.tid or end.pid}) was {quoted(end.title)}."
    reasons = _REASONS | ({"not_followed": _MAYBE_TOO_MANY} if is_bounded else {})

    def because(gap: ChainGap) -> str:
        of_process = gap in ("threads", "ran")
        reason = reasons[gap].format(who=_process(end) if of_process else who)
        if not end.tid and not of_process:
            reason = reason.replace(f"{who} was ", f"{who} were ").replace(" at its ", " at their ")
            reason = reason.replace("woke they", "woke them")
        return reason

    ns_of: Counter[ChainGap] = Counter()
    for part in parts:
        if part.gap is not None:
            ns_of[part.gap] += part.ns
    if gap is None:
        return
    if ns_of[gap] < SURE_SHARE * ns_of.total():
        head = "The root is not known: for"
        for each, ns in ns_of.most_common(MOST_REASONS):
            yield f"{head} {share(ns, ns_of.total())} of that time {because(each)}."
            head = "For"
    elif gap == "circle":
        yield f"The chain is a circle: {who} waited for a thread that waited for it."
    else:
        yield f"The root is not known: {because(gap)}."
        if gap == "ran" and end.tid:
            yield f"Only {end.name} ({end.tid}) of these ran, or wanted a CPU, for long."


def _process(thread: ChainThread) -> str:
    return f"{thread.process or thread.name} ({thread.pid})"


def _held(sample: Sample, held: Sequence[HeldProcess]) -> Iterator[str]:
    """Say what held another process of the program, and no more."""
    if not held:
        return
    first, *others = held
    title = f", {quoted(first.title)}," if first.title is not None else ""
    by = f" by {first.by.name} ({first.by.tid})" if first.by is not None else ""
    since = "all the time"
    if first.ns < sample.window.duration_ns:
        since = f"for {length(first.ns)} at least"
    yield f"Process {first.pid} of the same program{title} was {first.state}{by} {since}."
    if others:
        pids = listed([str(each.pid) for each in others[:MOST_OTHERS]])
        if len(others) == 1:
            yield f"So was process {pids}."
        elif len(others) <= MOST_OTHERS:
            yield f"So were processes {pids}."
        else:
            yield f"So were {len(others)} other processes, for example {pids}."
    yield "Whether that is the cause is not known."


WAIT_CHAIN_END = Rule(
    name="wait_chain_end",
    least_share=WANTED_SHARE,
    lost_ns=_lost_ns,
    say=_say,
    measures="The end of a wait chain without a known root (`--chains`).",
    limits="Counts as `wait_chain` does.",
    remark=True,
    lost_to=_end_of,
)


def _roots(sample: Sample, thread: Thread) -> list[list[ChainPart]]:
    """The parts of each process at the root, of each state one; those that take most first.

    None where one is a finding by itself, or where all that have a share together have less than
    half of the waits, or where nothing is known of what they did.
    """
    if thread.chain is None:
        return []
    own, whole_ns = sample.target.pid, thread.chain.ns
    of_process: dict[Process, list[ChainPart]] = defaultdict(list)
    for part in awaited_parts(sample, thread):
        if any(each.pid != own for each in part.threads):
            of_process[process_of(part.threads[-1])].append(part)
    found = [each for each in of_process.values() if sum_ns(each) >= NAMED_SHARE * whole_ns]
    is_enough = sum(map(sum_ns, found)) >= ROOT_SHARE * whole_ns
    is_known = any(part.state != "unknown" for each in found for part in each)
    if len(found) < 2 or not is_enough or not is_known:
        return []
    # These go through all parts again.
    if any(rule.lost_ns(sample, thread) for rule in (WAIT_CHAIN, WAIT_CHAIN_END)):
        return []
    found.sort(key=sum_ns, reverse=True)
    return [by_state(each) for each in found]


def _lost_to_roots_ns(sample: Sample, thread: Thread) -> int:
    roots = _roots(sample, thread)
    lost_ns = sum(map(sum_ns, roots))
    is_long = lost_ns >= IDLE_SHARE * sample.window.duration_ns
    return lost_ns if is_long or (roots and is_root_wanted(sample, thread, roots[0])) else 0


def _say_roots(case: Case) -> Statement:
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
        explains=explained_waits(case),
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
    lost_ns=_lost_to_roots_ns,
    say=_say_roots,
    measures="Several roots of a wait chain, none a finding by itself (`--chains`).",
    limits="Counts as `wait_chain` does.",
    remark=True,
)
