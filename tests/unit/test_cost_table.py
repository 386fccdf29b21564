"""What the cost gate says of figures that rose, fell, came and went."""

from pathlib import Path

import pytest

from bench.cost import table
from bench.cost.table import read_table, remarks, rises, write_table

COMMITTED = {"Linux 6.1": {"a program": 1000, "a map": 40}, "Python 3.11": {"modules": 300}}


VERIFIED = "instructions verified"
MOST_VERIFIED = {"default": 21_000, "-s": 30_000}
MOST_VERIFIED_OF_ONE = 8_300


def changed(**figures: int) -> dict[str, dict[str, int]]:
    return {"Linux 6.1": {"a program": 1000, "a map": 40, **figures}}


def test_what_is_as_committed_passes() -> None:
    assert not list(rises(COMMITTED, COMMITTED))
    assert not list(remarks(COMMITTED, COMMITTED))


def test_five_percent_more_pass() -> None:
    assert not list(rises(changed(**{"a program": 1050}), COMMITTED))


def test_more_than_five_percent_fail_with_both_figures() -> None:
    (line,) = rises(changed(**{"a program": 1051}), COMMITTED)
    assert line == "a program: rose from 1,000 to 1,051 (Linux 6.1)"


def test_a_few_more_of_a_small_figure_pass() -> None:
    assert not list(rises(changed(**{"a map": 50}), COMMITTED))
    assert list(rises(changed(**{"a map": 51}), COMMITTED))


def test_a_figure_that_came_fails_until_it_is_committed() -> None:
    (line,) = rises(changed(**{"another program": 5}), COMMITTED)
    assert line == "another program: 5, which the table has not (Linux 6.1)"


def test_a_figure_that_fell_is_named() -> None:
    (line,) = remarks(changed(**{"a program": 900}), COMMITTED)
    assert line == "a program: fell from 1,000 to 900 (Linux 6.1)"


def test_a_figure_that_went_is_named() -> None:
    (line,) = remarks({"Linux 6.1": {"a program": 1000}}, COMMITTED)
    assert line == "a map: not there any more (Linux 6.1)"


def test_another_kernel_is_not_compared_and_named() -> None:
    measured = {"Linux 7.0": {"a program": 10**9}}
    assert not list(rises(measured, COMMITTED))
    (line,) = remarks(measured, COMMITTED)
    assert line == "not compared, as the table has no figures of: Linux 7.0"


def test_writing_keeps_what_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "PATH", tmp_path / "table.json")
    write_table(COMMITTED)
    write_table({"Linux 6.1": {"a program": 900}})
    assert read_table() == {"Linux 6.1": {"a program": 900}, "Python 3.11": {"modules": 300}}


def test_a_rise_that_is_committed_stays_within_what_the_verifier_may_cost() -> None:
    figures = [each for group in read_table().values() for each in group.items()]
    verified = {name.rpartition(": ")[::2]: value for name, value in figures if VERIFIED in name}
    assert verified
    of_sets = {name: value for (name, what), value in verified.items() if "all programs" in what}
    assert {name for name, most in MOST_VERIFIED.items() if of_sets[name] > most} == set()
    of_one = {name: value for name, value in verified.items() if "all programs" not in name[1]}
    assert {name for name, value in of_one.items() if value > MOST_VERIFIED_OF_ONE} == set()
