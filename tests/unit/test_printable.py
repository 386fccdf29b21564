"""Escaping: nothing that is not printable passes, nothing else changes."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.printable import printable


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
