"""Several processes in one report: which there are, and which one a thread is of."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from itertools import chain

from msgspec import structs

from kernel_delay.analysis.processes import (
    RankedFinding,
    as_one,
    ranked,
)
from kernel_delay.analysis.verdict import is_wait
from kernel_delay.analysis.verdict.chain_ends import WAIT_CHAIN_END
from kernel_delay.analysis.verdict.formatting import in_percent
from kernel_delay.analysis.verdict.wait_chains import LOOK_AT, WAIT_CHAIN
from kernel_delay.formatting import printable
from kernel_delay.model import Container, Finding, Sample, Target, Thread
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.recording_header import short_container
from kernel_delay.reporters.tables import name_of

TITLE_WIDTH = 60
"""Of a title within a sentence; what a process does stands at its end, and is kept."""

_LEAST_TITLE = 10
_LEAST_SUMMED = 2
_MOST_KINDS = 3
_MOST_NAMED = 5
_MOST_LISTED = 10
_MOST_CHAINS = 3

# Who is at the end of a wait.
_CHAINS = (WAIT_CHAIN.name, WAIT_CHAIN_END.name)

_NUMBERS = re.compile(r"\d+")


class Processes:
    """The processes that a report is of, where these are several; empty for one."""

    def __init__(self, samples: Sequence[Sample] = ()) -> None:
        """Know those of a window's Samples."""
        several = samples if len(samples) > 1 else ()
        self._targets = [sample.target for sample in several if sample.target.pid]
        self._of = {
            thread.tid: sample.target
            for sample in several
            if sample.target.pid
            for thread in sample.threads
        }

    def __bool__(self) -> bool:
        """Whether they are several."""
        return bool(self._targets)

    def head(self, layout: Layout) -> Iterator[str]:
        """How many there are, by name, and which containers they are in."""
        names = Counter(printable(target.comm) for target in self._targets)
        listed = [f"{count:,} {name}" for name, count in names.most_common(_MOST_LISTED)]
        if len(names) > _MOST_LISTED:
            listed.append(f"{len(names) - _MOST_LISTED:,} other names")
        count = len(self._targets)
        yield from layout.comment(
            f"{count:,} {'process' if count == 1 else 'processes'}: {', '.join(listed)}"
        )
        containers: dict[Container, list[int]] = {}
        for target in self._targets:
            if target.container is not None:
                containers.setdefault(target.container, []).append(target.pid)
        for container, pids in containers.items():
            pids_listed = _listed([str(pid) for pid in pids], _MOST_LISTED)
            text = f"Container {printable(short_container(container))}: {pids_listed}"
            yield from layout.comment(text)

    def of(self, thread: Thread) -> Target | None:
        """The process of a thread; None where there is one only, or threads are summed up."""
        return self._of.get(thread.tid)

    def named(self, thread: Thread, width: int | None = None) -> str:
        """A thread by what its process calls itself; with its own name where that is another.

        Of the title as much is left as there is room for in `width` columns; None: all.
        """
        target = self.of(thread)
        name = name_of(thread)
        if target is None:
            return name
        title, before = title_of(target), ""
        if thread.tid != target.pid:
            before = f"{name} of {target.pid} "
        elif not title.startswith(name):
            before = f"{name}: "
        if width is not None:
            title = shortened(title, max(width - len(before), _LEAST_TITLE))
        return before + title


ONE = Processes()
"""There is one, and nothing to say of it."""


def together(samples: Sequence[Sample]) -> tuple[Sample, Processes]:
    """Return a window's Samples as one, whose verdict says of which process each finding is."""
    if len(samples) == 1:
        return samples[0], ONE
    # Most reports are of one process.
    from kernel_delay.analysis.ended import with_processes_together

    measured = {sample.target.pid for sample in samples}
    shown = with_processes_together(samples)
    findings = tuple(_without_circle(each, measured) for each in _findings(ranked(shown)))
    return structs.replace(as_one(shown), verdict=findings), Processes(samples)


def _without_circle(finding: Finding, measured: Set[int]) -> Finding:
    """Leave out the advice to measure a process that is measured: the report has its findings."""
    pid = finding.evidence.get("root_pid", finding.evidence.get("end_pid"))
    if pid not in measured or finding.advice is None or not finding.advice.startswith(LOOK_AT):
        return finding
    text = finding.text.replace(f" {finding.advice}", "", 1)
    return structs.replace(finding, text=text, advice=None)


def _findings(found: Sequence[RankedFinding]) -> tuple[Finding, ...]:
    """All findings, the worst first; the remarks on processes that waited are one, behind them.

    But for a few that say whom a process waited for. Where nothing is accused, the one on most
    processes stands by itself: they may be stalled.
    """
    chains = [each for each in found if each.finding.rule in _CHAINS][:_MOST_CHAINS]
    waits = [each for each in found if is_wait(each.finding) and each not in chains]
    if len(waits) < _LEAST_SUMMED:
        return tuple(map(_with_process, found))
    others = [each for each in found if each not in waits]
    most = max(waits, key=lambda each: len(each.others))
    if not most.others or any(not each.finding.remark for each in others):
        return (*map(_with_process, others), _summed(waits, others))
    rest = [each for each in waits if each is not most]
    first = (*others, most) if found[0] in others else (most, *others)
    if len(rest) == 1:
        return tuple(map(_with_process, (*first, *rest)))
    named = {target.pid for target, _ in _all_of(most)}
    left = [each for each in rest if any(target.pid not in named for target, _ in _all_of(each))]
    last = [_summed(left, others, "other ", named)] if left else []
    return (*map(_with_process, first), *last)


def _summed(
    waits: Sequence[RankedFinding],
    others: Sequence[RankedFinding],
    which: str = "",
    named: Set[int] = frozenset(),
) -> Finding:
    """One remark on the processes that waited.

    Args:
        waits: What was found of them.
        others: The other findings: a process that has one did not only wait.
        which: Stands before "processes".
        named: Processes of which another remark says so already.
    """
    shares: dict[int, float] = {}
    targets: dict[int, Target] = {}
    for target, finding in chain.from_iterable(map(_all_of, waits)):
        if target.pid in named:
            continue
        targets[target.pid] = target
        shares[target.pid] = max(finding.share, shares.get(target.pid, 0.0))
    busy = {target.pid for target, _ in chain.from_iterable(map(_all_of, others))}
    waited = "waited" if busy & shares.keys() else "only waited,"
    least, most = map(in_percent, (min(shares.values()), max(shares.values())))
    parts = most if least == most else f"{least.removesuffix(' %')} to {most}"
    titles = [_title_alone(target) for target in targets.values()]
    kinds = Counter(_NUMBERS.sub("*", title) for title in titles)
    whole = {_NUMBERS.sub("*", title): title for title in titles}
    listed = [whole[kind] if n == 1 else f"{n:,} {kind}" for kind, n in kinds.most_common()]
    details: tuple[str, ...] = (
        "Whether they had work to do is not known.",
        f"They are: {_listed(listed, _MOST_KINDS)}.",
    )
    sentence = f"{len(shares):,} {which}processes {waited} for {parts} of the window."
    if len(targets) == 1:
        (target,) = targets.values()
        details = ("Whether it had work to do is not known.",)
        sentence = f"{_process(target)} {waited} for {parts} of the window."
    return Finding(
        rule=waits[0].finding.rule,
        who="program",
        share=max(shares.values()),
        tid=0,
        text=" ".join((sentence, *details)),
        remark=True,
        evidence={"processes": len(shares)},
        sentence=sentence,
        details=details,
    )


def _all_of(found: RankedFinding) -> tuple[tuple[Target, Finding], ...]:
    return (found.target, found.finding), *found.others


def title_of(target: Target) -> str:
    """What a process calls itself, without its program's directory; else its name."""
    words = " ".join(target.command_line).strip()
    program, space, rest = (words or target.comm).partition(" ")
    return printable(program.rpartition("/")[2] + space + rest)


def shortened(text: str, width: int) -> str:
    """`text` in so many columns: what is left out is between a third of them and the end."""
    if len(text) <= width:
        return text
    begin = (width - 1) // 3
    return f"{text[:begin]}…{text[len(text) - (width - 1 - begin) :]}"


def _with_process(found: RankedFinding) -> Finding:
    target, finding = found.target, found.finding
    # Those that ended say themselves which they are.
    process = f"{_process(target)}: " if target.pid else ""
    text, sentence, details = process + finding.text, finding.sentence, finding.details
    if found.others:
        others = [f"{other.pid} ({in_percent(each.share)})" for other, each in found.others]
        more = "1 other process" if len(others) == 1 else f"{len(others):,} other processes"
        same = f"The same in {more}: {_listed(others, _MOST_NAMED)}."
        text, details = f"{text} {same}", (*details, same)
    if sentence:
        sentence = process + sentence
    return structs.replace(finding, text=text, sentence=sentence, details=details)


def _process(target: Target) -> str:
    return f"process {target.pid} ({_title_alone(target)})"


def _title_alone(target: Target) -> str:
    """What a process calls itself, without its name before it, as long as a sentence has room."""
    return shortened(title_of(target).removeprefix(f"{printable(target.comm)}: "), TITLE_WIDTH)


def _listed(texts: Sequence[str], most: int) -> str:
    left = len(texts) - most
    others = "1 other" if left == 1 else f"{left:,} others"
    return ", ".join(texts[:most]) + (f" and {others}" if left > 0 else "")
