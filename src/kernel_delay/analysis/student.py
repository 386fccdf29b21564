"""Student's t distribution: how far a mean of few samples strays.

By the finite sums for whole degrees of freedom in Abramowitz and Stegun, Handbook of
Mathematical Functions, 26.7.3 and 26.7.4.
"""

import math

_MOST_FREEDOM = 1000


def within(t: float, freedom: int) -> float:
    """The probability that |T| is at most `t`, which is not negative; `freedom` is at least 1."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def critical(chance: float, freedom: float) -> float:
    """The t that |T| exceeds with probability `chance`, which is above 0 and below 1.

    `freedom` is rounded down, which errs towards more; below 1 it is taken for 1.
    """
    whole = max(1, min(int(freedom), _MOST_FREEDOM))
    low, high = 0.0, 1.0
    while 1 - within(high, whole) > chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - within(middle, whole) > chance:
            low = middle
        else:
            high = middle
    return high
