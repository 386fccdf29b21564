"""Long rounds of several threads that lie in the same time: they may share a cause."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kernel_delay.logs.rounds import LongRound

MOST_NEIGHBOURS = 200
"""Rounds before and after one that are looked at for those in other threads."""


def with_others(rounds: Sequence[LongRound]) -> Iterator[LongRound]:
    """Yield the rounds, each with how many other threads of its log had one at the same time.

    Args:
        rounds: in the order of their time.
    """
    by_log: dict[str, list[LongRound]] = {}
    for round_ in rounds:
        if round_.time is not None:
            by_log.setdefault(round_.log, []).append(round_)
    places = dict.fromkeys(by_log, 0)
    for round_ in rounds:
        if round_.time is None:
            yield round_
            continue
        place = places[round_.log]
        places[round_.log] += 1
        yield replace(round_, together=len(_threads_around(by_log[round_.log], place)))


def _threads_around(rounds: Sequence[LongRound], place: int) -> set[str | None]:
    """Which other threads had a round that overlaps the one at `place` by half of the shorter."""
    one = rounds[place]
    around = rounds[max(0, place - MOST_NEIGHBOURS) : place + MOST_NEIGHBOURS]
    return {each.thread for each in around if each.thread != one.thread and _overlaps(one, each)}


def _overlaps(one: LongRound, other: LongRound) -> bool:
    if one.time is None or other.time is None:
        return False
    ends = one.time.timestamp() * 1000, other.time.timestamp() * 1000
    lengths = one.usage.length_ms, other.usage.length_ms
    since = max(end - length for end, length in zip(ends, lengths, strict=True))
    return min(ends) - since >= min(lengths) / 2
