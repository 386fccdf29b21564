"""What a system call that does nothing takes on this machine now, of a thread not measured."""

import os
import time
from collections.abc import Callable

from kernel_delay.model import CallCost

# In less than a millisecond, where nothing runs at each call.
BATCHES = 10
CALLS = 100


def call_cost() -> CallCost:
    """Return what the cheapest batches of calls took, each; of whatever runs at each call too."""
    function_ns = _each_ns(int)
    return CallCost(max(0, _each_ns(os.getppid) - function_ns), function_ns)


def _each_ns(function: Callable[[], int]) -> int:
    best_ns = None
    for _ in range(BATCHES):
        began_ns = time.perf_counter_ns()
        for _ in range(CALLS):
            function()
        ns = time.perf_counter_ns() - began_ns
        best_ns = ns if best_ns is None else min(ns, best_ns)
    assert best_ns is not None
    return best_ns // CALLS
