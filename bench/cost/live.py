"""Calls that a window of `kernel-delay top` takes for threads that sleep, as most of a machine."""

from msgspec.structs import replace

from bench.cost.reports import calls_of
from kernel_delay.analysis.verdict import Judge
from kernel_delay.capture.threads.collector import Collector
from kernel_delay.capture.threads.task_times import scheduled
from kernel_delay.model import Target
from kernel_delay.reporters.top_view import View, shown
from tests.recordings import HEADER
from tests.unit.recorded import Recorded
from tests.unit.samples import bare_sample, window

_LENGTH_NS = 1_000
_FEW = 100
_MORE = 100


def top_calls() -> dict[str, int]:
    """Return what _MORE threads more take that slept in the window before too."""
    calls = calls_of_a_window(_FEW + _MORE) - calls_of_a_window(_FEW)
    return {f"top: calls a window, for {_MORE} sleeping threads more": calls}


def calls_of_a_window(count: int) -> int:
    """Return the calls from a dump of so many threads to the lines of the screen."""
    recorded = Recorded()
    collector, judge, view = Collector(recorded), Judge(), View()
    for at in range(1, count + 1):
        recorded.state(at, at, b"worker")
    before = recorded.thread_states()

    def show(start_ns: int) -> None:
        stop_ns = start_ns + _LENGTH_NS
        epoch = recorded.open_window(start_ns, stop_ns)
        states = recorded.thread_states()
        scheduled(before, states)
        threads = collector.collect_each(epoch, start_ns, stop_ns, states)
        sample = bare_sample(
            *(thread for _, thread in threads),
            window=replace(window(duration_ns=_LENGTH_NS), start_ns=start_ns, stop_ns=stop_ns),
            target=Target(1, "worker", None),
        )
        view.lines(shown([judge.judge(sample)], HEADER), 80, 24)

    show(_LENGTH_NS)
    return calls_of(lambda: show(2 * _LENGTH_NS))
