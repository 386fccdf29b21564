"""Figures as Markdown tables: a row a peer and a column a case, or the other way."""

from collections.abc import Iterator, Sequence

from bench.figures import Figure, Measured
from bench.rounds import ADDED, added

# As many columns fit.
_WIDE = 8


def of(measured: Measured) -> Iterator[str]:
    """Yield the lines of a measure: its table, and who is absent."""
    # What is added says it all; the rest is in results.json.
    cases = _in_order(figure.case.removesuffix(ADDED) for figure in measured.figures)
    peers = _in_order(figure.peer for figure in measured.figures)
    if len(cases) <= _WIDE:
        yield from _table(
            cases, [[peer, *(_cell(measured, case, peer) for case in cases)] for peer in peers]
        )
    else:
        yield from _table(
            peers, [[case, *(_cell(measured, case, peer) for peer in peers)] for case in cases]
        )
    if measured.absent:
        yield ""
    for absence in measured.absent:
        yield f"- {absence.peer} could not be measured: {absence.reason}"


def circumstances(measured: Measured) -> Iterator[str]:
    """Yield a line for each peer whose figures are of another time, or of a busy machine."""
    for each in measured.earlier:
        what = f"{each.peer}, {each.what}" if each.what else each.peer
        yield f"- {what}: measured {each.when}, version {each.version}."
    for loaded in measured.beside_work:
        yield f"- {loaded.peer}: its other times are of a machine with other work, {loaded.cpu}."


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield row(["", *heads])
    yield row(["---", *("---:" for _ in heads)])
    yield from map(row, rows)


def _in_order(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))


def row(cells: Sequence[str]) -> str:
    """Return the line of a row."""
    return f"| {' | '.join(cells)} |"


def _cell(measured: Measured, case: str, peer: str) -> str:
    if (figure := measured.figure(added(case), peer)) is not None:
        return f"{figure.median:+{_format(figure.median)}}{_spread(figure)}"
    if (figure := measured.figure(case, peer)) is not None:
        return f"{number(figure.median)}{_spread(figure)}"
    return ""


def _spread(figure: Figure) -> str:
    spread = f" ± {number(figure.spread / 2)}" if len(figure.values) > 1 else ""
    return f"{spread} {figure.unit}".rstrip()


def number(value: float) -> str:
    """Three digits, or all that are before the point."""
    return f"{value:{_format(value)}}"


def _format(value: float) -> str:
    return ",.0f" if abs(value) >= 100 else ".3g"
