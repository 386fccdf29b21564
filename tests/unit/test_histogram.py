"""Histograms and quantiles against counting by hand."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.analysis.histogram import (
    Bucket,
    EqualWidthBucket,
    LinearHistogram,
    Log2Histogram,
    Quantiles,
    equal_width,
)
from kernel_delay.reporters.histogram import bucket_lines, equal_width_lines

values = st.lists(st.integers(0, 5000) | st.integers(0, 1 << 63), max_size=60)
parts = st.fractions(0, 1)


def counted(found: list[int], bucket: Bucket) -> int:
    return sum(bucket.low <= v and (bucket.high is None or v < bucket.high) for v in found)


@given(values, st.integers(1, 500), st.integers(1, 20))
def test_linear_buckets_count_every_value_once(found: list[int], width: int, n: int) -> None:
    histogram = LinearHistogram(width, width * n)
    for value in found:
        histogram.add(value)
    buckets = histogram.buckets()
    assert sum(bucket.count for bucket in buckets) == len(found)
    assert all(counted(found, bucket) == bucket.count for bucket in buckets)
    assert len(buckets) <= n + 1
    if buckets:
        assert buckets[0].count
        assert buckets[-1].count


@given(values)
def test_log2_buckets_count_every_value_once(found: list[int]) -> None:
    histogram = Log2Histogram()
    for value in found:
        histogram.add(value)
    buckets = histogram.buckets()
    assert sum(bucket.count for bucket in buckets) == len(found)
    assert all(counted(found, bucket) == bucket.count for bucket in buckets)


@given(values, st.integers(1, 40))
def test_equal_width_buckets_count_every_value_once(found: list[int], n: int) -> None:
    buckets = equal_width(found, n)
    assert sum(bucket.count for bucket in buckets) == len(found)
    for index, bucket in enumerate(buckets):
        last = index == len(buckets) - 1
        inside = [v for v in found if bucket.low <= v < bucket.high or (last and v == bucket.high)]
        assert len(inside) == bucket.count
    if buckets:
        assert buckets[0].low == min(found)
        assert buckets[-1].high == max(found)
        assert len({bucket.high - bucket.low for bucket in buckets}) == 1


@given(values, parts)
def test_quantile_is_within_one_128th_of_the_nearest_rank(found: list[int], part: Fraction) -> None:
    quantiles = Quantiles()
    for value in found:
        quantiles.add(value)
    assert (quantiles.count, quantiles.total) == (len(found), sum(found))
    got = quantiles.quantile(part)
    if not found:
        assert got is None
        return
    exact = sorted(found)[max(math.ceil(len(found) * part), 1) - 1]
    assert got is not None
    assert exact <= got <= exact + exact // 128
    assert got <= max(found)
    assert (quantiles.min, quantiles.max) == (min(found), max(found))


def test_the_buckets_read_as_in_bpftrace() -> None:
    histogram = LinearHistogram(1000, 3000)
    for value in [1] * 100 + [2500] * 2 + [9999]:
        histogram.add(value)
    assert bucket_lines(histogram.buckets()) == [
        "[0, 1000)     100 |" + "@" * 52 + "|",
        "[1000, 2000)    0 |" + " " * 52 + "|",
        "[2000, 3000)    2 |@" + " " * 51 + "|",
        "[3000, ...)     1 |" + " " * 52 + "|",
    ]


def test_no_values_give_no_lines() -> None:
    assert bucket_lines(LinearHistogram(10, 100).buckets()) == []
    assert equal_width([], 20) == []


def test_equal_width_buckets_read_as_in_the_slides() -> None:
    assert equal_width_lines(equal_width([1000] * 200 + [2000, 5000], 2), unit=1000) == [
        "# each ∎ stands for a count of 3",
        "        1.0000 -         3.0000 [201]: " + "∎" * 67,
        "        3.0000 -         5.0000 [  1]:",
    ]


def test_values_all_alike_need_one_bucket() -> None:
    assert equal_width([7, 7], 20) == [EqualWidthBucket(Fraction(7), Fraction(7), 2)]
