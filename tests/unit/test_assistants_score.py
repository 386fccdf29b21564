"""How answers of assistants are scored."""

from pathlib import Path

import msgspec
import pytest

from tests.assistants import answers as say
from tests.assistants.answers import CAUSES, Answer, Exchange, RecordingTruth
from tests.assistants.cases import CASES
from tests.assistants.score import (
    Outcome,
    culprit_of,
    figures,
    main,
    printed_of,
    read_answers,
    score,
)
from tests.assistants.stage import order
from tests.verdicts.run import names

PROJECT = Path(__file__).parents[2]

TRUTH = RecordingTruth(
    recording="r01.kdr",
    stage="causes/mutex_chain",
    story="owner has the mutex",
    target="victim (100)",
    causes=(say.THREAD_LOCK,),
    ids=frozenset({102}),
    words=(),
    partly=frozenset({101}),
    shown="VERDICT: …",
    attempts=1,
    is_shown=True,
)
LIMIT = msgspec.structs.replace(TRUTH, ids=frozenset(), words=("verdict-7",), partly=frozenset())
HEALTHY = msgspec.structs.replace(LIMIT, words=(say.NOBODY,), causes=(say.NOTHING,))

PRINTED = """
# VERDICT: middle (101) waited for 1,380.3 ms, 92 % of the window. Its owner is owner (102).
        futex                   202         140     1,362,754,147        21,222,927
        python                    13890          30         4,295,982   24.948
"""


def answer(culprit: str = "owner (102)", *numbers: str, sentence: str = "") -> Answer:
    return Answer("r01.kdr", culprit, say.THREAD_LOCK, numbers, sentence)


@pytest.mark.parametrize(
    ("culprit", "truth", "outcome"),
    [
        ("owner (102)", TRUTH, "right"),
        ("owner (TID 102)", TRUTH, "right"),
        ("middle (101)", TRUTH, "partly"),
        ("middle (101) and owner (102)", TRUTH, "right"),
        ("owner (102) and python (13890)", TRUTH, "FALSE"),
        ("victim (100)", TRUTH, "FALSE"),
        ("owner", TRUTH, "FALSE"),
        ("itself", TRUTH, "FALSE"),
        ("not known", TRUTH, "not known"),
        ("nobody", TRUTH, "missed"),
        ("cgroup /verdict-7", LIMIT, "right"),
        ("cgroup /sys/fs/cgroup/cpu/verdict-7", LIMIT, "right"),
        ("cgroup /verdict-7/inner", LIMIT, "FALSE"),
        ("nobody", HEALTHY, "right"),
        ("python (13890)", HEALTHY, "FALSE"),
    ],
)
def test_culprit_is_judged(culprit: str, truth: RecordingTruth, outcome: Outcome) -> None:
    assert culprit_of(answer(culprit), truth) == outcome


def test_cause_is_judged() -> None:
    assert score(answer(), TRUTH, PRINTED).is_cause_right
    wrong = msgspec.structs.replace(answer(), cause=say.QUOTA)
    assert not score(wrong, TRUTH, PRINTED).is_cause_right


def test_figures_are_read_with_their_units() -> None:
    found = [str(figure) for figure in figures("1,380.3 ms, 92 % of r01.kdr; task-3f2 (102), 2µs")]
    assert found == ["1,380.3 ms", "92 %", "102", "2 µs"]


@pytest.mark.parametrize(
    "number", ["1,380.3 ms", "1380.3 ms", "1\u202f380.3 ms", "92 %", "102", "1,362,754,147 ns"]
)
def test_printed_figure_is_no_invention(number: str) -> None:
    found = score(answer("owner (102)", number), TRUTH, PRINTED)
    assert (found.figures, found.rounded, found.invented) == (1, (), ())


@pytest.mark.parametrize("number", ["1.36 s", "21.2 ms", "4.30 ms", "25 %", "24.9 %"])
def test_rounding_of_the_tool_is_allowed(number: str) -> None:
    found = score(answer("owner (102)", number), TRUTH, PRINTED)
    assert found.rounded
    assert found.invented == ()


@pytest.mark.parametrize(
    "number", ["1,381 ms", "1.4 s", "93 %", "1,380.3 s", "20 ms", "7", "15x", "4k"]
)
def test_figure_that_nobody_printed_is_invented(number: str) -> None:
    found = score(answer("owner (102)", number), TRUTH, PRINTED)
    assert len(found.invented) == 1


def test_figures_of_the_sentence_count() -> None:
    found = score(answer(sentence="It waited for 1,380.3 ms, 95 % of the window."), TRUTH, PRINTED)
    assert found.figures == 2
    assert found.invented == ("95 %",)


def test_figure_of_another_recording_is_invented() -> None:
    exchanges = [
        Exchange(("r01.kdr",), "report r01.kdr", "92 %"),
        Exchange(("r02.kdr",), "report r02.kdr", "50 %"),
        Exchange((), "rule throttled", "from 1 % on"),
    ]
    printed = printed_of("r01.kdr", exchanges)
    assert score(answer("owner (102)", "92 %", "1 %", "50 %"), TRUTH, printed).invented == ("50 %",)


def test_answers_are_a_list_or_lines() -> None:
    line = msgspec.json.encode(answer()).decode()
    assert read_answers(f"[{line}]") == read_answers(f"{line}\n") == [answer()]


def test_an_innocent_name_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    second = msgspec.structs.replace(TRUTH, recording="r02.kdr")
    paths = [tmp_path / name for name in ("truth.json", "answers.json", "transcript.jsonl")]
    paths[0].write_bytes(msgspec.json.encode([TRUTH, second]))
    paths[2].write_bytes(msgspec.json.encode(Exchange(("r01.kdr",), "report r01.kdr", PRINTED)))
    monkeypatch.setattr("sys.argv", ["score", *map(str, paths)])

    paths[1].write_bytes(msgspec.json.encode([answer("owner (102)", "92 %")]))
    assert main() == 0
    assert "culprit 1 right, 0 partly" in capsys.readouterr().out

    paths[1].write_bytes(msgspec.json.encode([answer("python (13890)", "93 %")]))
    assert main() == 1
    printed = capsys.readouterr().out
    assert "INVENTED 93 %" in printed
    assert "1 FALSE, 1 no answer" in printed


def test_question_has_all_causes() -> None:
    question = (PROJECT / "tests/assistants/question.md").read_text()
    listed = [line[3:-1] for line in question.splitlines() if line.startswith("- `")]
    assert [line for line in listed if line in CAUSES] == list(CAUSES)


def test_thirty_stages_are_recorded() -> None:
    assert len({case.stage for case in CASES}) == len(order()) == 30
    assert {case.stage for case in CASES} <= set(names())
    assert all(set(case.causes) <= set(CAUSES) for case in CASES)
