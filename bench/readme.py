"""The figures that README quotes from the results."""

import re
import textwrap
from pathlib import Path

from bench.figures import Results
from bench.measures import packets, stacks
from bench.rounds import added
from bench.tables import number
from bench.targets import OURS, THEIRS

README = Path(__file__).parents[1] / "README.md"

_FIRST = "- Measuring costs time on every system call and context switch."
_EVENTS = "- An event of `-s` costs more than a call that is only counted."
_MEASURES = ("syscall", "packets", "stacks")
_CALL = "traced, 1 thread"
_OTHERS_CALL = "other, 1 thread"
_SWITCH = "traced, switch alone"


def with_figures(readme: str, results: Results) -> str:
    """Return README's text with the figures of these results in it, if all were measured."""
    if not results.measures.keys() >= set(_MEASURES):
        return readme
    for first, text in ((_FIRST, _of_calls(results)), (_EVENTS, _of_events(results))):
        item = re.compile(rf"^{re.escape(first)}.*\n(?:  .*\n)*", re.MULTILINE)
        lines = textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)
        readme = item.sub("\n".join(lines) + "\n", readme)
    return readme


def _of_calls(results: Results) -> str:
    measured = results.measures["syscall"]
    kernel = ".".join(results.machine.kernel.split(".")[:2])
    return (
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


def _of_events(results: Results) -> str:
    def took(peer: str, case: str = stacks.SHALLOW) -> str:
        figure = results.figure("stacks", case, peer)
        if figure is None:
            return "?"
        ns = figure.median
        return f"{number(ns)} ns" if ns < 1000 else f"{number(ns / 1000)} µs"

    with_stacks = stacks.reporting_events("dwarf").name
    return (
        f"{_EVENTS} In bursts a counted call took {took(OURS)} more;"
        f" as an event {took(stacks.reporting_events('none').name)} more without stacks,"
        f" and {took(with_stacks)} with them."
        f" From a stack 80 KiB deep an event took {took(with_stacks, stacks.DEEP)} more."
    )


def _added(results: Results, case: str, peer: str) -> str:
    return _median(results, "syscall", added(case), peer)


def _fewer(results: Results, peer: str) -> str:
    return _median(results, "packets", packets.FEWER, peer)


def _median(results: Results, measure: str, case: str, peer: str) -> str:
    figure = results.figure(measure, case, peer)
    return "?" if figure is None else number(figure.median)
