"""It waits for the last of several processes, each of which asks the next: relays.py."""

from functools import partial

from tests.verdicts.relays import staged
from tests.verdicts.truth import Stage

# How each is asked, how many there are, and what the last one does.
CHAINS = (
    ("pipe", 2, ("computes", "frozen", "runnable", "terminal")),
    ("pipe", 3, ("disk", "stopped", "stopper", "timer")),
    ("pipe", 4, ("throttled",)),
    ("pipe", 5, ("computes",)),
    ("unix", 2, ("disk", "stopper", "throttled")),
    ("unix", 3, ("computes", "frozen", "runnable", "terminal")),
    ("unix", 4, ("stopped",)),
    ("tcp", 2, ("disk", "frozen", "stopper", "terminal", "throttled")),
    ("tcp", 3, ("computes", "runnable", "select", "timer")),
    ("tcp", 5, ("stopped",)),
    ("pipe+unix+tcp", 3, ("computes",)),
    ("unix+pipe", 4, ("throttled",)),
    ("futex", 2, ("computes",)),
    ("futex", 3, ("timer",)),
    ("futex+pipe", 3, ("throttled",)),
    ("pipe-epoll", 3, ("stopped",)),
    ("tcp-select", 2, ("stopped",)),
    ("pipe-select", 3, ("computes",)),
    ("unix-epoll", 2, ("computes",)),
    ("tcp-epoll", 3, ("throttled",)),
    ("flock+unix", 2, ("throttled",)),
    ("flock", 2, ("stopped",)),
    ("fuse", 2, ("computes",)),
    ("fuse+unix", 3, ("stopper",)),
    ("inode", 1, ("timer",)),
)

STAGES: dict[str, Stage] = {
    f"chain_{kinds.replace('+', '_')}_{hops}_{how}": partial(staged, kinds, hops, how)
    for kinds, hops, ways in CHAINS
    for how in ways
}
