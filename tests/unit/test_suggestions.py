"""Suggestions for names that do not exist."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import similar_names

NAMES = ["bridge_run", "bridge_run__", "bridge_wait", "netdev_run", "ofproto_run", "main"]


def test_the_best_comes_first() -> None:
    assert similar_names("bridg_run", NAMES)[:2] == ("bridge_run", "bridge_run__")
    assert similar_names("mian", NAMES) == ("main",)
    assert similar_names("zzz", NAMES) == ()


@given(st.text("abc_", min_size=1, max_size=8), st.lists(st.text("abc_", max_size=8), max_size=50))
def test_few_names_give_what_difflib_gives(name: str, names: list[str]) -> None:
    matches = similar_names(name, names, 1)
    best = difflib.get_close_matches(name, names, 1)
    ratios = [
        [difflib.SequenceMatcher(None, match, name).ratio() for match in found]
        for found in (matches, best)
    ]
    assert ratios[0] == ratios[1]


def test_among_many_names_the_one_meant_is_found() -> None:
    many = [f"dpif_run_{i}" for i in range(9999)]
    assert similar_names("bridge_rnu", [*many, *NAMES])[0] == "bridge_run"
