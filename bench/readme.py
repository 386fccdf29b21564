"""The figures that README quotes from the results."""

import re
import textwrap
from pathlib import Path

from bench.figures import Results
from bench.measures import packets
from bench.rounds import added
from bench.tables import number
from bench.targets import OURS, THEIRS

README = Path(__file__).parents[1] / "README.md"

_FIRST = "- Measuring costs time on every system call and context switch."
_PARAGRAPH = re.compile(rf"^{re.escape(_FIRST)}.*\n(?:  .*\n)*", re.MULTILINE)
_CALL = "traced, 1 thread"
_OTHERS_CALL = "other, 1 thread"
_SWITCH = "traced, switch alone"


def with_figures(readme: str, results: Results) -> str:
    """Return README's text with the figures of these results in it, if all were measured."""
    if not {"syscall", "packets"} <= results.measures.keys():
        return readme
    return _PARAGRAPH.sub(lambda _: _paragraph(results), readme)


def _paragraph(results: Results) -> str:
    measured = results.measures["syscall"]
    kernel = ".".join(results.machine.kernel.split(".")[:2])
    text = (
        f"{_FIRST} Measured on {measured.when.partition('T')[0]} with Linux {kernel}:"
        f" a getppid(2) of {_median(results, 'syscall', _CALL, 'unmeasured')} ns took"
        f" {_added(results, _CALL, OURS)} ns more, and in another process"
        f" {_added(results, _OTHERS_CALL, OURS)} ns more."
        f" A context switch took {_added(results, _SWITCH, OURS)} ns more."
        f" Open vSwitch under a flood forwarded {_fewer(results, OURS)} % fewer packets."
        f" `{THEIRS}` added {_added(results, _CALL, THEIRS)} ns,"
        f" {_added(results, _OTHERS_CALL, THEIRS)} ns and {_added(results, _SWITCH, THEIRS)} ns,"
        f" and cost {_fewer(results, THEIRS)} % of the packets."
    )
    lines = textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _added(results: Results, case: str, peer: str) -> str:
    return _median(results, "syscall", added(case), peer)


def _fewer(results: Results, peer: str) -> str:
    return _median(results, "packets", packets.FEWER, peer)


def _median(results: Results, measure: str, case: str, peer: str) -> str:
    figure = results.figure(measure, case, peer)
    return "?" if figure is None else number(figure.median)
