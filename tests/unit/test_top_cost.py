"""What a window of `kernel-delay top` costs, counted: a busy machine changes nothing in that."""

from bench.cost.live import calls_of_a_window

THREADS = 500

# 38 when this was written, where a window took 15 ms of CPU time; 326 had taken 41 ms.
MOST_CALLS_A_THREAD = 50


def test_sleeping_thread_costs_few_calls_a_window() -> None:
    assert calls_of_a_window(THREADS) <= MOST_CALLS_A_THREAD * THREADS
