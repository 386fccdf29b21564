"""docs/reference/performance.md, out of the results."""

from collections.abc import Iterator
from pathlib import Path

from bench import tables
from bench.figures import Measured, Results
from bench.measures.measure import Measure
from bench.plan import MEASURES
from bench.targets import REMARKS, targets

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"

_HEAD = """# What measuring costs

`sudo make bench` writes this page from `bench/results.json`, which has every value. A value is the
median of several rounds, ± half the distance between the quartiles. Each *round* measures all
variants in turn. A `+` is the difference to the unmeasured load of the same round.

Figures without noise are counted by `make cost`. Each version adds a line to `bench/history.jsonl`:

![A panel for each figure, from the first version to the newest.](../images/cost.svg)"""


def render(results: Results) -> str:
    """Return the page."""
    return (
        "\n".join([_HEAD, "", *_machine(results), *_targets(results), *_measures(results)]) + "\n"
    )


def _machine(results: Results) -> Iterator[str]:
    machine = results.machine
    yield (
        f"The machine: {machine.cpu}, {machine.cpus} CPUs, {machine.memory_gib:g} GiB,"
        f" virtualised by: {machine.virtual}; {machine.system}, Linux {machine.kernel}."
    )
    yield ""


def _targets(results: Results) -> Iterator[str]:
    yield "## Targets"
    yield ""
    yield tables.row(["what", "measured", "target", ""])
    yield tables.row(["---", "---:", "---:", "---"])
    missed: dict[str, list[str]] = {}
    for target in targets():
        value, met = target.value(results), target.met(results)
        verdict = "not measured" if met is None else "met" if met else "missed"
        bound = f"{'≥' if target.least else '≤'} {tables.number(target.bound)}"
        shown = "" if value is None else tables.number(value)
        yield tables.row([target.about, shown, bound, verdict])
        if met is False and target.about in REMARKS:
            missed.setdefault(REMARKS[target.about], []).append(target.about)
    yield ""
    for remark, abouts in missed.items():
        yield "Missed:"
        yield ""
        yield from (f"- {about}" for about in abouts)
        yield ""
        yield remark
        yield ""


def _measures(results: Results) -> Iterator[str]:
    for measure in MEASURES:
        if (measured := results.measures.get(measure.name)) is not None:
            yield from _measure(measure, measured)


def _measure(measure: Measure, measured: Measured) -> Iterator[str]:
    yield f"## {measure.title}"
    yield ""
    yield f"{measure.method} Measured {measured.when}, version {measured.version}."
    yield ""
    if remarks := list(tables.circumstances(measured)):
        yield from (*remarks, "")
    yield from measure.tables(measured)
    yield ""
    for remark in measure.remarks(measured):
        yield remark
        yield ""
