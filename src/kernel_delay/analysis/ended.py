"""What ended within a window: many threads of a name are one, and processes of a name."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from msgspec import structs

from kernel_delay.analysis import totals
from kernel_delay.analysis.processes import as_one
from kernel_delay.analysis.verdict import RULES
from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.analysis.verdict.rule import KERNEL_SHARE, MOST_APART, Judged, sum_finding
from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.model import Finding, Sample, Target, Thread


def with_processes_together(samples: Sequence[Sample]) -> list[Sample]:
    """Return a window's Samples, with one for all processes of a name that nobody saw alive.

    A shell starts many that end at once. Those whose arguments were read while they lived stay
    apart. A delay of those that are together is the sum of their delays.
    """
    names = Counter(sample.target.comm for sample in samples if _has_ended(sample))
    found: list[Sample] = []
    together: dict[str, list[Sample]] = {}
    for sample in samples:
        if _has_ended(sample) and names[sample.target.comm] > 1:
            together.setdefault(sample.target.comm, []).append(sample)
        else:
            found.append(sample)
    return [*found, *map(_ended_as_one, together.values())]


def _has_ended(sample: Sample) -> bool:
    """Whether it is of one process that ended before anybody looked at it."""
    is_one = bool(sample.threads) and sample.target.pid > 0 and sample.round is None
    return is_one and not sample.target.command_line and all(t.exited for t in sample.threads)


def _ended_as_one(samples: Sequence[Sample]) -> Sample:
    comm, window_ns = samples[0].target.comm, samples[0].window.duration_ns
    name = f"{comm} ({len(samples):,} processes)"
    threads = [thread for sample in samples for thread in sample.threads]
    thread = structs.replace(_threads_as_one(threads, window_ns), name=name, threads=1)
    return structs.replace(
        as_one(samples),
        target=Target(0, comm, None),
        threads=(thread,),
        verdict=(*_delays(samples, name), *_own_code(samples, name)),
    )


def _delays(samples: Sequence[Sample], name: str) -> Iterator[Finding]:
    """Yield what the processes of that name lost together, with the one that lost most."""
    window_ns = samples[0].window.duration_ns
    judged = [Judged(sample) for sample in samples]
    for rule in RULES:
        losses = [
            (lost_ns, each.sample, thread)
            for each in judged
            for thread in (() if rule.remark else each.of(rule))
            if (lost_ns := rule.lost_ns(each.sample, thread)) > 0
        ]
        all_ns = sum(lost_ns for lost_ns, _, _ in losses)
        if not losses or all_ns < rule.least_share * window_ns:
            continue
        found = sum_finding(rule, losses, name)
        if found is not None:
            evidence = {**found.evidence, "processes": len(samples)}
            yield structs.replace(found, evidence=evidence)


def _own_code(samples: Sequence[Sample], name: str) -> Iterator[Finding]:
    """Yield a remark on how long the processes of that name were in their own code, if long.

    The rule on it takes the kernel's own count of the times, which ended with the processes.
    """
    window_ns = samples[0].window.duration_ns
    threads = (thread for sample in samples for thread in sample.threads)
    own_ns = sum(thread.time.user_ns for thread in threads if thread.time is not None)
    if own_ns < KERNEL_SHARE * window_ns:
        return
    sentence = f"{name} were in their own code for {length(own_ns)} in all."
    details = ("That may include what the kernel did for them outside of system calls.",)
    yield Finding(
        rule=USER_WORK.name,
        who="program",
        share=min(1.0, own_ns / window_ns),
        tid=0,
        text=" ".join((sentence, *details)),
        remark=True,
        evidence={"user_ns": own_ns, "processes": len(samples)},
        sentence=sentence,
        details=details,
    )


def with_threads_together(sample: Sample) -> Sample:
    """Return a Sample of one process, with one thread for many that ended and have one name.

    A server that starts a thread for each request has hundreds. Those that the verdict names stay
    apart.
    """
    named = {finding.tid for finding in sample.verdict}
    apart: list[Thread] = []
    ended: dict[str, list[Thread]] = {}
    for thread in sample.threads:
        is_apart = not thread.exited or thread.tid in named
        (apart if is_apart else ended.setdefault(thread.name, [])).append(thread)
    for threads in ended.values():
        is_many = len(threads) > MOST_APART
        apart += [_threads_as_one(threads, sample.window.duration_ns)] if is_many else threads
    return structs.replace(sample, threads=tuple(apart))


def _threads_as_one(threads: Iterable[Thread], window_ns: int) -> Thread:
    """Return the sum of threads that ended; absent is what they leave of one window."""
    thread = reduce(totals.together, (structs.replace(thread, tid=0) for thread in threads))
    if thread.time is None:
        return thread
    there_ns = sum(structs.astuple(thread.time)) - thread.time.absent_ns
    time = structs.replace(thread.time, absent_ns=max(0, window_ns - there_ns))
    return structs.replace(thread, time=time)
