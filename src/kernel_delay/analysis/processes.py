"""Samples of several processes of one window, as one: for what shows windows, not processes."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import overload

from msgspec import structs

from kernel_delay.model import Sample, Slice, Thread


class Windows:
    """Puts together the Samples of each window as they come, one process after the other."""

    def __init__(self, *, name_processes: bool = False) -> None:
        """Begin with none; `name_processes`: threads that aren't alone in theirs are told by it."""
        self._name_processes = name_processes
        self._samples: list[Sample] = []

    def take(self, sample: Sample) -> Iterator[Sample]:
        """Take one; yield the window that is whole with it, or that it is not of."""
        if self._samples and sample.window.start_ns != self._samples[0].window.start_ns:
            yield from self.rest()
        self._samples.append(sample)
        if len(self._samples) >= sample.processes:
            yield from self.rest()

    def rest(self) -> Iterator[Sample]:
        """Yield the window that is not whole, if there is one: the recording was cut."""
        if self._samples:
            yield self._merged(self._samples)
            self._samples = []

    def _merged(self, samples: list[Sample]) -> Sample:
        if len(samples) == 1:
            return samples[0]
        first = samples[0]
        timelines = [sample.timeline for sample in samples if sample.timeline is not None]
        findings = [finding for sample in samples for finding in sample.verdict]
        findings.sort(key=lambda finding: (finding.remark, -finding.share))
        return structs.replace(
            first,
            threads=tuple(thread for sample in samples for thread in self._threads(sample)),
            verdict=tuple(findings),
            surroundings=None,
            timeline=_Timelines(timelines) if timelines else None,
        )

    def _threads(self, sample: Sample) -> Iterable[Thread]:
        target = sample.target
        if not self._name_processes or not target.pid or _is_alone(sample):
            return sample.threads
        return (
            structs.replace(thread, name=f"{thread.name} of {target.comm} ({target.pid})")
            for thread in sample.threads
        )


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


def merged(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Yield each window's Samples as one."""
    windows = Windows()
    for sample in samples:
        yield from windows.take(sample)
    yield from windows.rest()


def _is_alone(sample: Sample) -> bool:
    """Whether its only thread says which process it is: by its id."""
    return [thread.tid for thread in sample.threads] == [sample.target.pid]
