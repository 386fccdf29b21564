"""What no program saw: events that were missed, what that may change, and parts of a kernel."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel_delay.analysis.verdict.formatting import listed
from kernel_delay.model import Lost, Unseen, Untraced

# A sentence of more kinds would be too long.
_IN_A_SENTENCE = 4


def missed_sentences(lost: Lost) -> Iterator[str]:
    """How many events were missed, of which kind, what may be wrong for it, and why, if any were.

    The kernel counts what it kept a program from (recursion_misses of struct bpf_prog_info). What
    else is missing shows by an event that does not fit the state before it.
    """
    if not lost.missed_events:
        return
    found = sorted((each for each in _kinds(lost) if each[1]), key=lambda each: -each[1])
    kinds = [_many(count, *kind) for kind, count in found]
    if len(kinds) == 1 < lost.missed_events:
        kinds = [kinds[0].partition(" ")[2]]
    yield (
        f"{_many(lost.missed_events, 'kernel event')} {_were(lost.missed_events)} missed:"
        f" {listed(kinds[:_IN_A_SENTENCE])}."
    )
    if kinds[_IN_A_SENTENCE:]:
        yield f"Also {listed(kinds[_IN_A_SENTENCE:])}."
    yield from _effects(lost)
    yield from _reasons(lost)


def _kinds(lost: Lost) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield each kind, as one event and as several, and how many were missed."""
    of_scheduler = lost.missed_wakeups + lost.missed_context_switches + lost.missed_others_switches
    yield ("system call or page fault", "system calls or page faults"), lost.missed_calls
    yield ("wake-up", "wake-ups"), lost.missed_wakeups
    yield ("context switch", "context switches"), lost.missed_context_switches
    yield (
        ("context switch of another task", "context switches of other tasks"),
        lost.missed_others_switches,
    )
    yield (
        ("other event of the scheduler", "other events of the scheduler"),
        lost.missed_switches - of_scheduler,
    )
    yield ("interrupt", "interrupts"), lost.missed_interrupts
    yield ("event of an unknown thread", "events of unknown threads"), lost.missed_threads
    yield ("of a kind that is not known",) * 2, _of_unknown_kind(lost)


def _of_unknown_kind(lost: Lost) -> int:
    return (
        lost.missed_events
        - lost.missed_calls
        - lost.missed_switches
        - lost.missed_interrupts
        - lost.missed_threads
    )


def _effects(lost: Lost) -> Iterator[str]:
    """Yield what may be too low, and which time has gone to no state."""
    may_be_any = _of_unknown_kind(lost) + lost.missed_threads
    of_threads = lost.missed_switches - lost.missed_others_switches + may_be_any
    too_low = [
        what
        for what, count in (
            ("system calls", lost.missed_calls + may_be_any),
            ("runs", of_threads),
            ("waits for a CPU", of_threads),
            ("interrupts", lost.missed_interrupts + may_be_any),
        )
        if count
    ]
    if too_low:
        yield f"Counts and times of {listed(too_low)} may be too low."
    if lost.missed_calls + of_threads:
        yield (
            "A thread's time from its last event before to the next one after is unaccounted where"
            " the scheduler's counts do not show what it did."
        )
    if lost.missed_others_switches:
        yield "Who had the CPU in a wait may be UNKNOWN."


def _reasons(lost: Lost) -> Iterator[str]:
    """Yield why, as far as the kernel or the programs know that."""
    recursion, threads = lost.missed_by_recursion, lost.missed_threads
    if recursion:
        yield (
            f"Why: the kernel skipped {recursion:,} because the same program of kernel-delay ran on"
            " that CPU already (recursion); some may be of other processes."
        )
    if threads:
        yield (
            f"Why: {threads:,} came while the thread's state was locked on that CPU, by an"
            " interrupted or another BPF program, or the thread's start was missed."
        )
    by_untraced = 0
    untraced = lost.untraced
    # Behind one switch to it several programs may have missed the same event, or none.
    left = max(0, lost.missed_events - recursion - threads)
    if untraced is not None and left:
        by_untraced = min(untraced.missed, left)
        yield (
            f"Why: {by_untraced:,} came while {_who(untraced)} had the CPU. No tracing program runs"
            f" here at such times: {_many(untraced.missed, 'switch', 'switches')} to its threads"
            f" {_were(untraced.missed)} seen, and none from them."
        )
    rest = lost.missed_events - recursion - threads - by_untraced
    if rest > 0:
        others = "the other" if rest == 1 else "the others"
        explained = recursion or threads or by_untraced
        which = others if explained else "it" if rest == 1 else "they"
        known = "; that reason may be theirs" if by_untraced else ""
        yield f"Why {which} {_were(rest)} missed is not known{known}."


def _who(untraced: Untraced) -> str:
    if untraced.comm:
        return f"{untraced.comm} ({untraced.pid})"
    return f"process {untraced.pid} of the initial PID namespace"


def _many(count: int, one: str, several: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


COSTS: Mapping[Unseen, str] = MappingProxyType(
    {
        "page_faults": "the time of a program's page faults is in user",
        "futex_owners": "the holder of a lock is not known where its waiter slept before the"
        " capture began",
        "earlier_calls": "the system call that a thread was in when the capture began is not known,"
        " and `watch` hooks each call",
        "files_of_sleeps": "on which file a thread slept, and who has its other end, is not known",
        "stacks_of_wakers": "which function of a thread woke another one is not known",
        "samples": "which functions a slow thread ran is not known",
        "calls": "they are known by their sleeps, and what ran in them by samples",
    }
)


def say_unseen(part: Unseen) -> str:
    """What the reader of a report is to know of it."""
    if part == "calls":
        return f"Of system calls only polls were hooked: other calls are not counted; {COSTS[part]}"
    return f"This kernel shows no {part.replace('_', ' ')}: {COSTS[part]}"
