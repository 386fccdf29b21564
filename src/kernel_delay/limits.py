"""How much is measured at most, ever or unless the user says so; it imports no library."""

LONGEST_S = 7 * 24 * 3600
"""A week. Longer is taken for a slip, as of nanoseconds given for seconds."""

MAX_EVENTS = 1_000_000
MAX_STACKS = 4096
STACK_BYTES = 98304
