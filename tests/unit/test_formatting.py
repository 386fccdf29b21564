"""Nothing that is not printable passes, nothing else changes; and lengths of time are brief."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.formatting import brief, printable


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("handler24", "handler24"),
        ("kworker/0:1-événement 日本", "kworker/0:1-événement 日本"),
        ("a\nb\tc\r", "a\\x0ab\\x09c\\x0d"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),  # CSI and DEL, which some terminals act on
        ("txt.\u202eexe", "txt.\\u202eexe"),  # turns the text after it around
        ("\u2028\u00a0", "\\u2028\\xa0"),
        ("\U000e0041\ud800", "\\U000e0041\\ud800"),
    ],
)
def test_examples(name: str, escaped: str) -> None:
    assert printable(name) == escaped


@given(st.text(st.characters(exclude_characters="\\'")))
def test_result_is_printable_and_means_the_same_to_python(text: str) -> None:
    escaped = printable(text)
    assert escaped.isprintable()
    assert ast.literal_eval(f"'{escaped}'") == text


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_printable_text_is_unchanged(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (9_994, "9.99 µs"),
        (9_996, "10.0 µs"),
        (99_960, "100 µs"),
        (353_400_000, "353 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.00 s"),
        (41_840_000_000, "41.8 s"),
        (999_000_000_000, "999 s"),
        (1_000_000_000_000, "16 min"),
        (7_980_000_000_000, "2 h 13 min"),
        (273_600_000_000_000, "3 d 4 h"),
    ],
)
def test_each_length_is_brief(ns: int, text: str) -> None:
    assert brief(ns) == text
