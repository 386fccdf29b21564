"""Calls that it takes to make Threads of what the programs recorded."""

from bench.cost.reports import calls_of
from kernel_delay.capture.threads.collector import Collector
from kernel_delay.loader._records import lib
from tests.unit.recorded import Recorded

_START_NS, _STOP_NS = 1_000, 2_000
_FEW = 20
_MORE = 20


def collector_calls() -> dict[str, int]:
    """Return what _MORE threads more take, each of which made a system call and slept."""
    calls = _collected(_FEW + _MORE) - _collected(_FEW)
    return {f"collector: calls, for {_MORE} threads more": calls}


def _collected(count: int) -> int:
    recorded = Recorded()
    epoch = recorded.open_window(_START_NS, _STOP_NS)
    for at in range(1, count + 1):
        state = recorded.state(at, at, b"worker")
        record = recorded.thread(at, at, b"worker", epoch)
        recorded.syscall(record.number, 300)
        record.account.mode_ns[lib.MODE_SYSCALL] = 300
        state.now.epoch = epoch
        state.now.mode_since_ns = state.now.state_since_ns = _START_NS + 300
    collector = Collector(recorded)
    return calls_of(lambda: collector.collect(epoch, _START_NS, _STOP_NS))
