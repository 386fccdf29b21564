"""Lengths of time have three significant digits and a unit."""

import pytest

from kernel_delay.units import brief


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
