"""Errors: one line each, in plain words, that can be read at once."""

from pathlib import Path

from tests.unit.error_sentences import all_error_sentences, error_sentences
from tests.unit.plain_words import MOST_WORDS, faults

SOURCE = Path(__file__).parents[2] / "src" / "kernel_delay"


def line_faults(text: str) -> list[str]:
    """What is wrong with an error's line: all of it is read at once, whatever its stops are."""
    words = len(text.split())
    too_long = [f"{words} words: {text}"] if words > MOST_WORDS else []
    lines = [f"several lines: {text}"] if "\n" in text else []
    return [*lines, *too_long, *(fault for fault in faults(text) if "words:" not in fault)]


def test_errors_are_in_plain_words() -> None:
    found = [
        f"{place}: {fault}"
        for place, text in all_error_sentences(SOURCE)
        for fault in line_faults(text)
    ]
    assert found == []


def test_sentences_of_errors_are_found() -> None:
    assert sum(1 for _ in all_error_sentences(SOURCE)) > 150


def test_a_sentence_has_its_values_in_backticks() -> None:
    source = 'raise UsageError(f"{name!r} is no file;" " give one" + hint)'
    assert list(error_sentences(source, "a.py")) == [
        ("a.py:1", "`VALUE` is no file; give one`VALUE`")
    ]


def test_long_lines_and_banned_words_are_faults() -> None:
    assert line_faults("it can't be told") == ["'told': it can't be told"]
    assert line_faults("word " * 31) == [f"31 words: {'word ' * 31}"]
    assert line_faults("one line\nand another") == ["several lines: one line\nand another"]
    assert line_faults("process 7 has exited: nothing to measure") == []
