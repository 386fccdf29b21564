"""What a rule is: data that says what to look at, from when on it counts, and what to say."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kernel_delay.analysis.verdict.words import percent
from kernel_delay.model import Finding, Sample, Thread, Who

# The longest that a healthy machine takes to give a woken thread a CPU, and
# more: in a window of a millisecond or less one such wait is a large share.
NEGLIGIBLE_NS = 100_000


class Case(Struct, frozen=True):
    """The thread that a rule found to be hit worst, and what it lost.

    `others` are the other threads that lost enough to be found. `accused`: another rule found
    something that a thread wanted. `in_turn`: with these it lost it, one after the other.
    """

    sample: Sample
    thread: Thread
    lost_ns: int
    others: tuple[Thread, ...]
    accused: bool
    in_turn: tuple[Thread, ...] = ()

    @property
    def share(self) -> float:
        """How much of the window was lost."""
        return self.lost_ns / self.sample.window.duration_ns

    @property
    def of_window(self) -> str:
        """The same in words."""
        return percent(self.lost_ns, self.sample)


class Statement(Struct, frozen=True):
    """What a rule says of a case.

    `explains` are other findings, by rule and tid, that this one includes: they are not
    repeated.
    """

    text: str
    who: Who
    evidence: Mapping[str, int] = {}
    advice: str | None = None
    explains: frozenset[tuple[str, int]] = frozenset()


class Rule(Struct, frozen=True):
    """One thing that keeps a thread from its work.

    `lost_ns` is what it took of a thread in the window; from `least_share` of the window on it
    counts. `say` makes the sentence; None: what was seen is not enough to say it. `looks_at`,
    and `silent_on`, are for the page that lists the rules. A thread that `tells_more` is told
    of before one that was hit worse.

    A `remark` is of what a thread may well have wanted; of a round it is a finding as any other,
    from `round_share` on if that is not None: who has nothing to do polls, and so ends the round.
    What no thread loses enough of, several may `in_turn`, as those that run goroutines do.
    """

    name: str
    least_share: float
    lost_ns: Callable[[Sample, Thread], int]
    say: Callable[[Case], Statement | None]
    looks_at: str
    silent_on: str
    remark: bool = False
    round_share: float | None = None
    in_turn: bool = False
    tells_more: Callable[[Thread], bool] = lambda thread: False


class Found(Struct, frozen=True):
    """A finding, and what it makes unnecessary to say."""

    finding: Finding
    explains: frozenset[tuple[str, int]]


def apply(rule: Rule, sample: Sample, *, accused: bool = False) -> Found | None:
    """Return what the rule finds in the sample, of the thread that was hit worst."""
    in_round = sample.round is not None and rule.round_share is not None
    least_share = (in_round and rule.round_share) or rule.least_share
    least_ns = max(NEGLIGIBLE_NS, least_share * sample.window.duration_ns)
    losses = [
        (lost_ns, thread)
        for thread in sample.threads
        # A sum of many threads is not to be held against one window.
        if thread.time is not None
        and thread.threads == 1
        and (lost_ns := rule.lost_ns(sample, thread)) > 0
    ]
    hit = [(lost_ns, thread) for lost_ns, thread in losses if lost_ns >= least_ns]
    if rule.in_turn and not hit:
        return _apply_in_turn(rule, sample, losses, least_ns, accused=accused)
    # One that can't be told is no reason to be silent on the next.
    hit.sort(key=lambda pair: (not rule.tells_more(pair[1]), -pair[0], pair[1].tid))
    for lost_ns, thread in hit:
        others = tuple(other for _, other in hit if other is not thread)
        case = Case(sample, thread, lost_ns, others, accused)
        statement = rule.say(case)
        if statement is not None:
            return Found(_finding(rule, case, statement), statement.explains)
    return None


def _apply_in_turn(
    rule: Rule,
    sample: Sample,
    losses: Sequence[tuple[int, Thread]],
    least_ns: float,
    *,
    accused: bool,
) -> Found | None:
    """The same of threads that did not lose more than one could have."""
    lost_ns = sum(each for each, _ in losses)
    if not least_ns <= lost_ns <= sample.window.duration_ns:
        return None
    losses = sorted(losses, key=lambda pair: (-pair[0], pair[1].tid))
    worst, *others = (thread for _, thread in losses)
    case = Case(sample, worst, lost_ns, (), accused, tuple(others))
    statement = rule.say(case)
    return Found(_finding(rule, case, statement), statement.explains) if statement else None


def _finding(rule: Rule, case: Case, statement: Statement) -> Finding:
    text = statement.text + (f"; {statement.advice}" if statement.advice else "")
    return Finding(
        rule=rule.name,
        who=statement.who,
        share=case.share,
        tid=case.thread.tid,
        text=f"{text}.",
        remark=rule.remark and case.sample.round is None,
        evidence={"lost_ns": case.lost_ns, **statement.evidence},
        advice=statement.advice,
    )
