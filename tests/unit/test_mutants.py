"""The mutants fit the sources, and the page says what became of each."""

from pathlib import Path

import pytest

from tests.mutants import in_bpf, in_python, page
from tests.mutants.in_bpf import Listed
from tests.mutants.outcomes import Counted, MutantsError, Outcomes, read

LISTED = in_bpf.listed()


def name(mutant: Listed) -> str:
    return f"{mutant.file}: {mutant.what}"


@pytest.mark.parametrize("mutant", LISTED, ids=name)
def test_each_is_in_the_sources_and_has_tests(project: Path, mutant: Listed) -> None:
    right = (project / mutant.path).read_text()
    assert mutant.edit(right) != right
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function}" in (project / file).read_text()


def test_none_is_there_twice() -> None:
    assert len({name(mutant) for mutant in LISTED}) == len(LISTED)


def test_what_is_not_there_once_is_refused() -> None:
    mutant = Listed("bpf/event.h", "a", "b", "nothing", ())
    for text in ("", "aa"):
        with pytest.raises(MutantsError, match=f"has {len(text)} times: a"):
            mutant.edit(text)


RESULTS = """\
    kernel_delay.analysis.rounds.x__function__mutmut_1: killed
    kernel_delay.analysis.rounds.x__function__mutmut_2: survived
    kernel_delay.analysis.rounds.x__function__mutmut_3: no tests
    kernel_delay.analysis.rounds.x_file__mutmut_1: timeout
    kernel_delay.analysis.gain.xǁRoundGainsǁadd__mutmut_12: survived
    kernel_delay.analysis.gain.xǁRoundGainsǁadd__mutmut_13: not checked
"""


def test_mutmut_results_are_counted() -> None:
    assert in_python.count(RESULTS, "today") == {
        "analysis.rounds": Counted("today", 4, 2, {"function": 2}),
        "analysis.gain": Counted("today", 1, 0, {"RoundGains.add": 1}),
    }


def test_each_survivor_is_on_the_page_once() -> None:
    outcomes = Outcomes(in_python.count(RESULTS, "today"))
    lines = page.page(outcomes).splitlines()
    assert lines.count("- `analysis.rounds.function`: 2") == 1
    assert lines.count("- `analysis.gain.RoundGains.add`: 1") == 1


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text() == page.page(read()), "python -m tests.mutants.page writes it"


def test_what_was_tried_is_in_the_list() -> None:
    tried = {f"{mutant.file}: {mutant.what}" for mutant in read().bpf}
    assert tried <= set(map(name, LISTED))
