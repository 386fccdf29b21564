"""Hold a verdict against the truth."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from kernel_delay.model import Finding, Sample, Thread
from tests.verdicts.oracle import Span
from tests.verdicts.truth import Truth

Outcome = Literal["right", "vague", "nothing", "FALSE"]

# The windows end a little before and after the counts are taken.
EDGE_NS = 20_000_000

# The kernel counts a wait from when its thread is in the run queue, we from when it is woken, with
# our own programs in between: 2 us a wait were measured.
WAKE_NS = 3_000

# A virtual CPU that idled takes so long to wake up, at the worst, that it can be for that.
SLOW_WAKE_NS = 2_000_000

# What an idle CPU took of waits is worth a look from so much on.
IDLE_SHARE = 0.5

# From so much idleness on, a CPU was there for who may not use it.
IDLED = 0.7


class Judgement(Struct, frozen=True):
    """What a verdict is worth, and the sentences that make it so, the worst first."""

    outcome: Outcome
    texts: tuple[str, ...]


class Witness(Struct, frozen=True):
    """What the kernel's counts refute: tasks that did not run, or wait, or have it work so long.

    The counts are of the whole capture, so what all its windows say is summed.
    """

    ran_too_little: dict[int, str]
    waited_too_little: dict[int, str]
    had_too_little_done: dict[int, str]
    stole_ns: int
    idled: bool


def witness(samples: list[Sample], span: Span) -> Witness:
    """Compare what all windows of a capture say of CPUs with the kernel's counts."""
    said_ran: dict[int, int] = {}
    said_waited: dict[int, int] = {}
    said_done: dict[int, int] = {}
    allowed: set[int] = set()
    for sample in samples:
        # Threads that wait for one CPU wait for the same task: it ran once.
        takers: dict[int, int] = {}
        for thread in sample.threads:
            for taker in thread.cpu_taken_by:
                takers[taker.tid] = max(takers.get(taker.tid, 0), taker.ns)
            if thread.time is not None:
                # The kernel counts from when the CPU woke up (sched_info_enqueue()).
                waited_ns = thread.time.ready_ns - _idle(thread)[0]
                waited_ns -= WAKE_NS * (thread.ready.count if thread.ready else 0)
                said_waited[thread.tid] = said_waited.get(thread.tid, 0) + waited_ns
            if thread.scheduling is not None:
                allowed.update(thread.scheduling.cpus)
        for tid, ns in takers.items():
            said_ran[tid] = said_ran.get(tid, 0) + ns
        for finding in sample.verdict:
            if finding.rule == "doubtful_user":
                ns = finding.evidence["lost_ns"]
                said_done[finding.tid] = said_done.get(finding.tid, 0) + ns
    return Witness(
        _refuted(said_ran, span.ran_ns),
        _refuted(said_waited, span.waited_ns),
        _refuted(said_done, span.system_ns),
        span.steal_ns,
        any(span.idle_share(cpu) >= IDLED for cpu in span.after.idle if cpu not in allowed),
    )


def _refuted(said: dict[int, int], counted: Callable[[int], int | None]) -> dict[int, str]:
    """Of which tasks more is said than the kernel counted, and how much."""
    found = {}
    for tid, said_ns in said.items():
        counted_ns = counted(tid)
        if counted_ns is not None and said_ns > counted_ns + counted_ns // 10 + EDGE_NS:
            found[tid] = f"{counted_ns / 1e6:.0f} of {said_ns / 1e6:.0f} ms"
    return found


def _idle(thread: Thread) -> tuple[int, int]:
    """How long a thread waited for CPUs that idled, and how often."""
    idle = [taker for taker in thread.cpu_taken_by if not taker.tid and taker.comm == "idle"]
    return sum(taker.ns for taker in idle), sum(taker.waits for taker in idle)


def judge(sample: Sample, truth: Truth, seen: Witness) -> Judgement:
    """What the sample's verdict is worth."""
    false = [why for finding in sample.verdict if (why := _false(sample, finding, truth, seen))]
    if false:
        return Judgement("FALSE", tuple(false))
    if truth.healthy:
        return Judgement("right", ())
    reported = [finding for finding in sample.verdict if finding.rule in truth.right]
    if any(_tells_all(finding, truth, seen) for finding in reported):
        return Judgement("right", ())
    true = reported + [f for f in sample.verdict if f.rule in truth.also and f.rule != "user_work"]
    if true:
        return Judgement("vague", tuple(f"{f.rule}: {f.text}" for f in true))
    rest = tuple(f"{f.rule}: {f.text}" for f in sample.verdict)
    return Judgement("nothing", rest)


def _tells_all(finding: Finding, truth: Truth, seen: Witness) -> bool:
    names = (*truth.names, *(["affinity"] if truth.pinned and seen.idled else []))
    return all(name in finding.text for name in names)


def _false(sample: Sample, finding: Finding, truth: Truth, seen: Witness) -> str | None:
    """Why a finding is false; None: it may be true."""
    said = f"{finding.rule}: {finding.text}"
    for name in truth.innocent:
        if name in finding.text:
            return f"[blames {name}] {said}"
    if "not to blame" in finding.text and not truth.acquits:
        return f"[acquits] {said}"
    if finding.rule == "cpu_contention":
        why = _not_contended(sample, finding, seen)
        return f"[{why}] {said}" if why else None
    if finding.rule in truth.right | truth.also:
        return None
    if truth.healthy and finding.rule == "doubtful_user" and "page faults" in finding.text:
        why = seen.had_too_little_done.get(finding.tid)
        return f"[the kernel worked for {why}] {said}" if why else None
    if finding.rule == "steal":
        return None if seen.stole_ns >= finding.evidence["lost_ns"] else f"[none] {said}"
    if finding.remark and finding.rule != "user_work":
        return None
    return f"[not the cause; the hypervisor took {seen.stole_ns / 1e6:.0f} ms] {said}"


def _not_contended(sample: Sample, finding: Finding, seen: Witness) -> str | None:
    """What the kernel's counts refute of a wait for a CPU."""
    (thread,) = (each for each in sample.threads if each.tid == finding.tid)
    if thread.tid in seen.waited_too_little:
        return f"it waited for {seen.waited_too_little[thread.tid]}"
    ready_ns = thread.time.ready_ns if thread.time else 0
    idle_ns, wakes = _idle(thread)
    names_idle = "the CPU idled" in finding.text
    if names_idle and idle_ns >= IDLE_SHARE * ready_ns and idle_ns > SLOW_WAKE_NS * wakes:
        return "blames an idle CPU"
    for taker in thread.cpu_taken_by:
        if taker.tid in seen.ran_too_little and f"({taker.tid})" in finding.text:
            return f"{taker.comm} ({taker.tid}) ran for {seen.ran_too_little[taker.tid]}"
    return None
