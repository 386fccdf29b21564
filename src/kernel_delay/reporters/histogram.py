"""Histograms as text, a bar for each bucket."""

from collections.abc import Sequence

from kernel_delay.analysis.histogram import Bucket, EqualWidthBucket

BAR_WIDTH = 52
SIGN = "∎"
MAX_SIGNS = 75


def bucket_lines(buckets: Sequence[Bucket]) -> list[str]:
    """A line for each bucket: `[0, 1000)  20201 |@@@@  |`; the fullest has the longest bar."""
    ranges = [
        f"[{bucket.low}, {'...' if bucket.high is None else bucket.high})" for bucket in buckets
    ]
    width = max((len(text) for text in ranges), default=0)
    count_width = max((len(str(bucket.count)) for bucket in buckets), default=0)
    highest = max((bucket.count for bucket in buckets), default=0)
    return [
        f"{text:<{width}}  {bucket.count:>{count_width}} "
        f"|{'@' * (bucket.count * BAR_WIDTH // max(highest, 1)):<{BAR_WIDTH}}|"
        for text, bucket in zip(ranges, buckets, strict=True)
    ]


def equal_width_lines(buckets: Sequence[EqualWidthBucket], unit: int = 1) -> list[str]:
    """What one sign stands for, then `36.7580 -   390.8850 [  111]: ∎∎` for each bucket.

    The bounds are divided by `unit`: 1000 turns nanoseconds into microseconds.
    """
    scale = count_per_sign([bucket.count for bucket in buckets])
    count_width = max((len(str(bucket.count)) for bucket in buckets), default=0)
    return [
        f"# each {SIGN} stands for a count of {scale}",
        *(
            f"{float(bucket.low / unit):>14.4f} - {float(bucket.high / unit):>14.4f} "
            f"[{bucket.count:>{count_width}}]: {bar(bucket.count, scale)}".rstrip()
            for bucket in buckets
        ),
    ]


def count_per_sign(counts: Sequence[int]) -> int:
    """How many one sign stands for, so that the longest bar still fits a line."""
    return max(-(-max(counts, default=0) // MAX_SIGNS), 1)


def bar(count: int, scale: int) -> str:
    """`count` as signs of `scale` each, rounded down."""
    return SIGN * (count // scale)
