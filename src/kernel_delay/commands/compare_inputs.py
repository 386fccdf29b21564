"""What `compare` compares: windows of a capture, or long rounds of a recording or a folder."""

import re
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from kernel_delay.analysis.comparison import Comparison, compare
from kernel_delay.analysis.figures import Figures
from kernel_delay.analysis.processes import merged
from kernel_delay.analysis.round_comparison import compare_rounds
from kernel_delay.analysis.round_figures import RoundFigures
from kernel_delay.analysis.rounds import main_cause
from kernel_delay.commands.options import arguments
from kernel_delay.commands.options.rounds import THRESHOLD_S
from kernel_delay.errors import InputError, KernelDelayError, NoInputError, UsageError
from kernel_delay.formatting import encodable
from kernel_delay.model import RecordingHeader, Sample
from kernel_delay.recording.directory import no_recordings, recordings_in
from kernel_delay.recording.reader import IntactRecords, RecordingReader, open_recording
from kernel_delay.reporters.comparison_sides import RecordedRounds, Side
from kernel_delay.reporters.rounds import way_of

# Which samples of a file: a.kdr@1-10.
_PART = re.compile(r"(?P<file>.+)@(?P<first>\d+)-(?P<last>\d+)")

T = TypeVar("T")


class Part(Struct, frozen=True):
    """A file or a folder, and which of its samples: from the first to the last, None: to the end.

    The first sample is 1.
    """

    name: str
    first: int = 1
    last: int | None = None

    def files(self) -> list[str]:
        """Return what is read of it, or more of the same folder."""
        path = Path(self.name)
        return [str(file) for file in recordings_in(path)] if path.is_dir() else [self.name]

    def of(self, samples: Iterator[T]) -> Iterator[T]:
        """Yield what is part of it."""
        for number, sample in enumerate(samples, start=1):
            if number >= self.first and (self.last is None or number <= self.last):
                yield sample


class SideRead(Struct, frozen=True):
    """What was read of one side, and why that is not all."""

    side: Side
    figures: Figures | RoundFigures
    damages: Sequence[KernelDelayError] = ()


def parse_part(argument: str) -> Part:
    """Read FILE@M-N. Raises UsageError for samples that there can't be."""
    found = _PART.fullmatch(argument)
    if found is None or Path(argument).exists():
        return Part(argument)
    first, last = int(found["first"]), int(found["last"])
    if not 1 <= first <= last:
        raise UsageError(f"{argument!r} selects no samples: write @M-N, and count from 1")
    return Part(found["file"], first, last)


def read_side(argument: str) -> SideRead:
    """Read one side. Raises InputError or NoInputError where there is nothing to compare in it."""
    part = parse_part(argument)
    if Path(part.name).is_dir():
        return _read_folder(argument, part)
    with open_recording(part.name) as recording:
        match recording.header.command:
            case "capture":
                return _read_windows(argument, part, recording)
            case "watch":
                rounds = _Rounds()
                rounds.read(recording, part)
                return rounds.side(argument)
        raise _unfit(recording)


def compare_sides(before: SideRead, after: SideRead) -> Comparison:
    """Compare what is of one kind; InputError for what is not."""
    one, other = before.figures, after.figures
    if isinstance(one, Figures) and isinstance(other, Figures):
        return compare(one, other)
    if isinstance(one, RoundFigures) and isinstance(other, RoundFigures):
        _check_ways(before.side, after.side)
        return compare_rounds(one, other)
    raise InputError(
        "rounds of watch can't be compared with windows of capture: give two recordings of one"
        " command"
    )


def _check_ways(before: Side, after: Side) -> None:
    if before.rounds and after.rounds and before.rounds.way != after.rounds.way:
        raise InputError(
            f"rounds from {before.rounds.way} can't be compared with those from {after.rounds.way}"
        )


def _unfit(recording: RecordingReader) -> InputError:
    return InputError(
        f"{recording.name!r} is a recording of {recording.header.command}: only those of capture"
        " and watch can be compared"
    )


def _read_windows(argument: str, part: Part, recording: RecordingReader) -> SideRead:
    figures, reading = Figures(), IntactRecords(recording)
    # Of several processes those of one window are one: what is compared are windows.
    for sample in part.of(merged(record for record in reading if isinstance(record, Sample))):
        figures.add(sample)
    side = Side(encodable(argument), recording.header, figures.samples, figures.window_ns)
    return SideRead(side, figures, () if reading.damage is None else (reading.damage,))


def _read_folder(argument: str, part: Part) -> SideRead:
    """Read a folder that `watch -o` wrote; one file that can't be read leaves the others."""
    paths = part.files()
    if not paths:
        raise no_recordings(part.name)
    rounds = _Rounds()
    for path in part.of(iter(paths)):
        try:
            with open_recording(path) as recording:
                rounds.read(recording, Part(path))
        except (InputError, NoInputError) as error:
            rounds.damages.append(error)
    return rounds.side(argument)


def _threshold_ns(words: Sequence[str]) -> int | None:
    """Return what --threshold was in a command line that was recorded; None if it has no sense."""
    given = THRESHOLD_S
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == "--threshold":
            given = value if equals else "".join(words[place + 1 : place + 2])
    try:
        return arguments.pause_ns(given)
    except ArgumentTypeError:
        return None


class _Rounds:
    """What was read of rounds, from one recording or from several."""

    def __init__(self) -> None:
        self.damages: list[KernelDelayError] = []
        self._figures = RoundFigures()
        self._header: RecordingHeader | None = None
        self._processes: set[tuple[str | None, int]] = set()
        self._thresholds_ns: set[int] = set()
        self._known: RecordedRounds | None = None

    def read(self, recording: RecordingReader, part: Part) -> None:
        """Read one recording, as far as it goes. Raises InputError if it is none of rounds."""
        if recording.header.command != "watch":
            raise _unfit(recording)
        reading = IntactRecords(recording)
        for sample in part.of(record for record in reading if isinstance(record, Sample)):
            if sample.round is None or not sample.threads:
                raise InputError(f"{recording.name!r} has a sample that is not a round")
            self._header = self._header or recording.header
            self._processes.add((recording.header.boot_id, recording.header.target.pid))
            threshold_ns = _threshold_ns(recording.header.arguments)
            if threshold_ns is not None:
                self._thresholds_ns.add(threshold_ns)
            self._add(sample)
        if reading.damage is not None:
            self.damages.append(reading.damage)

    def side(self, argument: str) -> SideRead:
        """Return what was read; InputError if there is not one round."""
        if self._header is None or self._known is None:
            raise self.damages[0] if self.damages else InputError(f"{argument!r} has no rounds")
        known = structs.replace(
            self._known,
            processes=len(self._processes),
            thresholds_ns=tuple(sorted(self._thresholds_ns)),
        )
        figures = self._figures
        side = Side(encodable(argument), self._header, figures.samples, figures.window_ns, known)
        return SideRead(side, figures, self.damages)

    def _add(self, sample: Sample) -> None:
        assert sample.round is not None
        self._figures.add(sample)
        ns, suppressed, way = sample.window.duration_ns, sample.round.suppressed, way_of(sample)
        known = self._known
        if known is None:
            self._known = RecordedRounds(ns, ns, suppressed, 1, way, main_cause(sample))
            return
        if way != known.way:
            raise InputError(
                f"rounds from {known.way} can't be compared with those from {way}: give one kind"
            )
        self._known = RecordedRounds(
            min(ns, known.shortest_ns),
            max(ns, known.longest_ns),
            known.suppressed + suppressed,
            1,
            way,
        )
