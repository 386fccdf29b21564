"""What the verifier takes: the pages have each program, and the totals that `make cost` has."""

import re
from pathlib import Path

import msgspec
import pytest

from bench import results, tables
from bench.cost.programs import Verified
from bench.cost.table import differ, read_table
from bench.figures import Absence, BesideWork, Earlier, Figure, Measured, Results
from bench.measures import verifier
from bench.measures.verifier import HERE
from bench.programs_page import PROGRAMS_PAGE, render_programs
from bench.results import TIMES, with_earlier
from bench.targets import REMARKS, targets
from bench.verifying import Loading
from kernel_delay.loader.objects import open_object
from tests.requirements.objects import installed_objects

REWRITE = "run 'sudo make bench BENCH_ARGS=\"--only verifier\"' to measure again"
OBJECTS = sorted(path.name.removesuffix(".bpf.o") for path in installed_objects())
TOTALS = ("default", "-s", "--timeline", "watch --metrics")


def found() -> Results:
    read = results.read_results()
    assert read is not None
    return read


def counted(case: str, peer: str, count: float) -> Figure:
    return Figure.of(case, peer, "", [count])


def timed(case: str, peer: str, ms: float) -> Figure:
    return Figure.of(case, peer, "ms", [ms])


def test_page_of_programs_is_of_the_results() -> None:
    assert PROGRAMS_PAGE.read_text() == render_programs(found()), REWRITE


@pytest.mark.parametrize("name", OBJECTS)
def test_each_program_is_on_the_page(name: str) -> None:
    section = re.search(
        rf"^## {name}\.bpf\.o$(.*?)(?=^## |\Z)", PROGRAMS_PAGE.read_text(), re.M | re.S
    )
    assert section, REWRITE
    shown = set(re.findall(r"^\| `(\w+)` \|", section[1], re.M))
    with open_object(name) as bpf_object:
        assert {program.name for program in bpf_object.programs()} <= shown, REWRITE


@pytest.mark.parametrize("name", TOTALS)
def test_totals_are_those_of_the_cost_table(name: str) -> None:
    machine = found().machine
    case = f"{name}: all programs"
    figure = found().figure("verifier", case, HERE)
    group = f"Linux {machine.kernel.partition('-')[0]}, {machine.cpus} CPUs, clang"
    committed = [each for key, each in read_table().items() if key.startswith(group)]
    assert figure is not None
    assert committed
    for table in committed:
        assert not differ(table[f"{case}, instructions verified"], round(figure.median)), REWRITE


def test_missed_target_of_the_verifier_says_why() -> None:
    missed = {target.about for target in targets() if target.met(found()) is False}
    assert {about for about in missed if "verified" in about} <= REMARKS.keys()


def test_largest_set_of_a_program_is_shown(tmp_path: Path) -> None:
    small, large = Verified(10, 7), Verified(20, 5)
    loadings = {
        "a": Loading("x", {"on_a": small}, {"on_a": 3000}, [1.0], {"on_b": "no such function"}),
        "b": Loading("x", {"on_a": large}, {"on_a": 2000}, [2.0], {"on_b": "no such function"}),
    }
    file = tmp_path / "verified.json"
    file.write_bytes(msgspec.json.encode(loadings))
    figures, absent = verifier.read_figures("6.1", file)
    shown = {figure.case: figure.median for figure in figures}
    assert shown["x.bpf.o, on_a"] == 20
    assert shown["x.bpf.o, on_a, jumps"] == 7
    assert shown["x.bpf.o, on_a, time"] == 3
    assert absent == [Absence("6.1", "x.bpf.o, on_b: no such function")]


def test_kernels_that_were_not_measured_keep_their_figures() -> None:
    old = (counted("a", "6.1: 6.1.0", 10), counted("a", "5.14: 5.14.2", 20))
    new = (counted("a", "6.1: 6.1.9", 11),)
    merged = with_earlier(Measured("now", "2", new), Measured("then", "1", old))
    assert merged.figures == (new[0], old[1])
    assert merged.earlier == (Earlier("5.14: 5.14.2", "", "then", "1"),)


def test_kernels_keep_their_order() -> None:
    old = (counted("a", "5.14: 5.14.2", 20), counted("a", "6.1: 6.1.0", 10))
    new = (counted("a", "6.1: 6.1.9", 11), counted("a", "7.2", 12))
    merged = with_earlier(Measured("now", "2", new), Measured("then", "1", old))
    assert merged.figures == (old[0], *new)


def test_times_beside_other_work_replace_none() -> None:
    old = (counted("a", "6.1", 10), timed("a: time", "6.1", 5))
    new = (counted("a", "6.1", 11), timed("a: time", "6.1", 50), timed("b: time", "6.1", 60))
    taken = Measured("now", "2", new, beside_work=(BesideWork("6.1", "a CPU"),))
    merged = with_earlier(taken, Measured("then", "1", old))
    assert merged.figures == (new[0], old[1], new[2])
    assert list(tables.circumstances(merged)) == [
        f"- 6.1, {TIMES}: measured then, version 1.",
        "- 6.1: its other times are of a machine with other work, a CPU.",
    ]


def test_figures_keep_the_time_they_are_of() -> None:
    kernels = "5.14", "6.1", "7.2"
    first = Measured("then", "1", tuple(counted("a", kernel, 1) for kernel in kernels))
    second = with_earlier(Measured("later", "2", (counted("a", "6.1", 2),)), first)
    third = with_earlier(Measured("now", "3", (counted("a", "7.2", 3),)), second)
    since = {each.peer: each.version for each in third.earlier}
    assert since == {"5.14": "1", "6.1": "2"}
