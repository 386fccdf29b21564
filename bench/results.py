"""results.json, read and written; and a measure of which a part was measured again."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bench.figures import Earlier, Measured, Results

TIMES = "times to load"

FILE = Path(__file__).parent / "results.json"

# Objects that have none within.
_INNERMOST = re.compile(rb"\{[^{}]*\}")


def read_results(file: Path = FILE) -> Results | None:
    """Return what was measured before; None if nothing was."""
    if not file.exists():
        return None
    return msgspec.json.decode(file.read_bytes(), type=Results)


def write_results(results: Results, file: Path = FILE) -> None:
    """Write them, for people too: a figure a line."""
    encoded = msgspec.json.format(msgspec.json.encode(results), indent=1)
    lines = _INNERMOST.sub(lambda found: b" ".join(found[0].split()), encoded)
    file.write_bytes(lines + b"\n")


def with_earlier(taken: Measured, before: Measured) -> Measured:
    """Keep the figures of peers that were not measured now, and all times of those beside work.

    A kernel is known by its name: what follows a colon is its release.
    """
    now = {figure.peer for figure in taken.figures}
    names = set(map(_name, now))
    kept = [figure for figure in before.figures if _name(figure.peer) not in names]
    loaded = {each.peer for each in taken.beside_work}
    times = {
        (figure.case, figure.peer): figure
        for figure in before.figures
        if figure.peer in loaded and figure.unit == "ms"
    }
    figures = [times.get((figure.case, figure.peer), figure) for figure in taken.figures]
    order = list(dict.fromkeys(_name(figure.peer) for figure in (*before.figures, *figures)))
    return msgspec.structs.replace(
        taken,
        figures=tuple(sorted([*figures, *kept], key=lambda each: order.index(_name(each.peer)))),
        absent=(*taken.absent, *(each for each in before.absent if _name(each.peer) not in names)),
        earlier=(
            *_of_before(before, (figure.peer for figure in kept), ""),
            *_of_before(before, (peer for _, peer in times), TIMES),
        ),
        beside_work=(
            *taken.beside_work,
            *(each for each in before.beside_work if _name(each.peer) not in names),
        ),
    )


def _of_before(before: Measured, peers: Iterable[str], what: str) -> Iterator[Earlier]:
    for peer in dict.fromkeys(peers):
        known = {each.what: each for each in before.earlier if each.peer == peer}
        since = known.get(what) or known.get("") or before
        yield Earlier(peer, what, since.when, since.version)
        if not what and TIMES in known:
            yield known[TIMES]


def _name(peer: str) -> str:
    return peer.partition(":")[0]
