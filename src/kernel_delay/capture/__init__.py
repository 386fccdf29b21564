"""A session: plan, programs, windows, processes, Samples. And how much is measured at most."""

LONGEST_S = 7 * 24 * 3600
"""A week. Longer is taken for a slip, as of nanoseconds given for seconds."""

MAX_EVENTS = 1_000_000
MAX_STACKS = 4096
STACK_BYTES = 98304
