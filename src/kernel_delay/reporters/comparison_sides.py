"""The two sides of a comparison: of what they are, as text and for JSON."""

import textwrap
from collections.abc import Iterator

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.formatting import printable
from kernel_delay.model import RecordingHeader

_INDENT = 8
_WIDTH = 80


class RecordedRounds(Struct, frozen=True):
    """What rounds were read: their lengths, of how many processes, and why the only one was long.

    `suppressed` are long rounds without a record (--min-gap), as the records say; `way` is what a
    round goes from and to, `cause` None where there are several. `thresholds_ns` are all that the
    records were made with, the least first.
    """

    shortest_ns: int
    longest_ns: int
    suppressed: int
    processes: int
    way: str
    cause: str | None = None
    thresholds_ns: tuple[int, ...] = ()


class Side(Struct, frozen=True):
    """One of the two recordings: what the user called it, and what was read of it.

    `rounds` is None where it is of windows. Of several recordings `header` is the first's.
    """

    file: str
    header: RecordingHeader
    samples: int
    window_ns: int
    rounds: RecordedRounds | None = None


def side_lines(title: str, side: Side) -> Iterator[str]:
    """What a side is of, line by line."""
    header, target = side.header, side.header.target
    if side.rounds is None:
        samples = f"{side.samples:,} sample{'' if side.samples == 1 else 's'}"
        yield f"{title:7} {printable(side.file)}: {samples}, {side.window_ns / 1e9:.1f} s\n"
    else:
        yield f"{title:7} {printable(side.file)}\n"
        yield f"{'':7} {_rounds(side.samples, side.rounds)}\n"
    where = f"{target.comm} ({target.pid})"
    if side.rounds is not None and side.rounds.processes > 1:
        where = f"{where} and {side.rounds.processes - 1} more, the first"
    yield f"{'':7} {printable(f'{where} on {header.host}, Linux {header.kernel}')}\n"
    if side.rounds is not None and side.rounds.cause is not None:
        why = textwrap.wrap(printable(side.rounds.cause), _WIDTH - _INDENT)
        yield from (f"{'':{_INDENT}}{line}\n" for line in why)


def threshold_remarks(before: Side, after: Side) -> Iterator[str]:
    """That the rounds were not chosen alike, as lines, where that is so."""
    one, other = (side.rounds.thresholds_ns if side.rounds else () for side in (before, after))
    if one and other and one != other:
        yield f"The rounds were recorded with another --threshold: {_lengths(one)} before,"
        yield f"{_lengths(other)} after. By that alone they differ in length."


def _lengths(thresholds_ns: tuple[int, ...]) -> str:
    return " and ".join(map(length, thresholds_ns))


def _rounds(count: int, rounds: RecordedRounds) -> str:
    shortest, longest = length(rounds.shortest_ns), length(rounds.longest_ns)
    of = longest if shortest == longest else f"{shortest} to {longest}"
    suppressed = f"; {rounds.suppressed:,} more have no record" if rounds.suppressed else ""
    return f"{count:,} round{'' if count == 1 else 's'} of {of}{suppressed}"
