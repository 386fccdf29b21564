"""Percentiles from powers of two: near the true ones, and never beyond the longest."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.analysis.percentiles import interpolated, is_longest, percentile


def histogram(lengths: list[int]) -> tuple[int, ...]:
    """As bpf/accounting.h:count_length() counts them."""
    counts = [0] * 32
    for length in lengths:
        counts[min(31, max(0, length.bit_length() - 1))] += 1
    while not counts[-1]:
        counts.pop()
    return tuple(counts)


@given(st.lists(st.integers(0, 1 << 31), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_percentile_is_within_a_factor_of_two(lengths: list[int], fraction: float) -> None:
    exact = sorted(lengths)[math.ceil(fraction * len(lengths)) - 1]
    found = percentile(histogram(lengths), fraction, max(lengths))
    # The lowest bucket is of 0 and 1 ns together, and reaches up to 2.
    assert exact // 2 <= found <= max(2, 2 * exact)
    assert found <= max(lengths)


@given(st.lists(st.integers(0, 1 << 40), min_size=1))
def test_percentiles_rise_up_to_the_longest(lengths: list[int]) -> None:
    counts = histogram(lengths)
    found = [percentile(counts, n / 100, max(lengths)) for n in range(1, 101)]
    assert found == sorted(found)
    assert found[-1] == max(lengths)


@given(st.lists(st.integers(0, 1 << 40), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_of_few_lengths_the_longest_is_exact(lengths: list[int], fraction: float) -> None:
    exact = sorted(lengths)[math.ceil(fraction * len(lengths)) - 1]
    counts = histogram(lengths)
    if is_longest(counts, fraction):
        assert percentile(counts, fraction, max(lengths)) == exact
    else:
        found = percentile(counts, fraction, max(lengths))
        assert found == interpolated(counts, fraction, max(lengths))


@pytest.mark.parametrize(
    ("count", "fraction", "longest"),
    [(1, 0.5, True), (2, 0.5, False), (9, 0.9, True), (99, 0.99, True), (100, 0.99, False)],
)
def test_which_percentile_is_the_longest(count: int, fraction: float, longest: bool) -> None:
    assert is_longest((0,) * 10 + (count,), fraction) == longest


def test_lengths_are_taken_to_lie_evenly_in_a_bucket() -> None:
    # Four from 1024 up to 2048 ns: half of them up to the middle.
    assert percentile((0,) * 10 + (4,), 0.5, 2000) == 1024 + (2000 - 1024) // 2
    assert percentile((0,) * 10 + (4, 4), 0.5, 4000) == 2048
