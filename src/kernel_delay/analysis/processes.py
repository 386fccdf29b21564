"""Samples of several processes of one window, together, and as one Sample."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

from msgspec import Struct, structs

from kernel_delay.analysis.verdict import is_wait
from kernel_delay.formatting import title_in
from kernel_delay.model import Finding, Sample, Slice, Target, Thread

_FIGURE = re.compile(r"\d[\d,.]*( (ns|µs|ms|s)\b)?")


class Windows:
    """Puts together the Samples of each window as they come, one process after the other."""

    def __init__(self) -> None:
        """Begin with none."""
        self._samples: list[Sample] = []

    def take(self, sample: Sample) -> Iterator[Sequence[Sample]]:
        """Take one; yield the window that is whole with it, or that it is not of."""
        if self._samples and sample.window.start_ns != self._samples[0].window.start_ns:
            yield from self.rest()
        self._samples.append(sample)
        if len(self._samples) >= sample.processes:
            yield from self.rest()

    def rest(self) -> Iterator[Sequence[Sample]]:
        """Yield the window that is not whole, if there is one: the recording was cut."""
        if self._samples:
            yield self._samples
            self._samples = []


class RankedFinding(Struct, frozen=True):
    """A finding about one process, and the processes with the same finding.

    Attributes:
        target: The process that it hit worst.
        finding: The finding.
        others: The other processes with their own findings, the worst first.
    """

    target: Target
    finding: Finding
    others: tuple[tuple[Target, Finding], ...] = ()


def ranked(samples: Sequence[Sample]) -> list[RankedFinding]:
    """Return the findings about all processes of a window, the worst first.

    Findings of one rule are one if their first sentences only differ in figures and names of
    threads. For waits the titles of the processes may only differ in figures too. Two findings of
    one process are never one. If two findings took as much, the one about more processes comes
    first.
    """
    found = [(sample, finding) for sample in samples for finding in sample.verdict]
    found.sort(key=lambda each: (each[1].remark, -each[1].share))
    alike: dict[Hashable, list[tuple[Target, Finding]]] = {}
    of_process: Counter[Hashable] = Counter()
    for sample, finding in found:
        what = _what(sample, finding)
        of_process[sample.target.pid, what] += 1
        group = alike.setdefault((what, of_process[sample.target.pid, what]), [])
        group.append((sample.target, finding))
    groups = [
        RankedFinding(target, finding, tuple(others))
        for (target, finding), *others in alike.values()
    ]
    return sorted(
        groups, key=lambda each: (each.finding.remark, -each.finding.share, -len(each.others))
    )


def _what(sample: Sample, finding: Finding) -> tuple[str, str, str, int]:
    """The rule, its first sentence without figures and the thread's name, and a waiter's title.

    Also the process at the end of a wait chain: that is a figure of the sentence.
    """
    clause = finding.sentence or finding.text.partition(";")[0]
    for thread in sample.threads:
        if thread.tid == finding.tid:
            clause = clause.replace(f"{thread.name} ({thread.tid})", "")
    title = " ".join(sample.target.command_line) if is_wait(finding) else ""
    end = finding.evidence.get("root_pid") or finding.evidence.get("end_pid") or 0
    return finding.rule, _FIGURE.sub("#", clause), _FIGURE.sub("#", title), end


class _Timelines(Sequence[Slice]):
    """Slices of one process behind those of the other: each is made when it is looked at."""

    def __init__(self, parts: Sequence[Sequence[Slice]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Slice]:
        return chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, index: int) -> Slice: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Slice, ...]: ...

    def __getitem__(self, index: "int | slice[int, int, int]") -> Slice | tuple[Slice, ...]:
        if not isinstance(index, int):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        at = range(len(self))[index]
        for part in self._parts:
            if at < len(part):
                return part[at]
            at -= len(part)
        raise IndexError(index)


def as_one(samples: Sequence[Sample], *, name_processes: bool = False) -> Sample:
    """Return a window's Samples as one, with the first one's target.

    Args:
        samples: Those of one window, one at least.
        name_processes: Put the process behind the name of each thread that isn't alone in its own,
            and the title that a process gave itself in place of its name.
    """
    first, *others = samples
    if not others:
        return first
    timelines = [sample.timeline for sample in samples if sample.timeline is not None]
    findings = [finding for sample in samples for finding in sample.verdict]
    findings.sort(key=lambda finding: (finding.remark, -finding.share))
    return structs.replace(
        first,
        threads=tuple(chain.from_iterable(_threads(each, name_processes) for each in samples)),
        verdict=tuple(findings),
        system_state=None,
        timeline=_Timelines(timelines) if timelines else None,
    )


def merged(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Yield each window's Samples as one."""
    windows = Windows()
    for sample in samples:
        yield from map(as_one, windows.take(sample))
    yield from map(as_one, windows.rest())


def _threads(sample: Sample, name_processes: bool) -> Iterable[Thread]:
    target = sample.target
    if not name_processes or not target.pid:
        return sample.threads
    title = title_in(target.command_line)
    if _is_alone(sample):
        return (structs.replace(thread, name=title or thread.name) for thread in sample.threads)
    return (
        structs.replace(thread, name=f"{thread.name} of {title or target.comm} ({target.pid})")
        for thread in sample.threads
    )


def _is_alone(sample: Sample) -> bool:
    """Whether its only thread says which process it is: by its id."""
    return [thread.tid for thread in sample.threads] == [sample.target.pid]
