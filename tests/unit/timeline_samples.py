"""A Sample with a timeline of two threads, whose parts are known."""

from collections.abc import Iterator

from msgspec.structs import replace

from kernel_delay.model import Sample, Slice, Thread, ThreadTime
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, bare_thread, window

WINDOW = window(duration_ns=1_000_000)

_AT = WINDOW.start_ns


def _slice(tid: int, kind: str, start: int, stop: int, mode: str, *rest: object) -> Slice:
    """From `start` to `stop`, in us of the window."""
    times = (_AT + start * 1000, _AT + stop * 1000)
    return Slice(tid, kind, *times, mode, *rest)  # type: ignore[arg-type]


HANDLER = (
    _slice(7, "running", 0, 100, "user", None, 1),
    _slice(7, "soft_irq", 20, 50, "user", "net_rx", 1),
    _slice(7, "hard_irq", 30, 35, "user", "eth0", 1),
    _slice(7, "call", 60, 900, "syscall", "futex"),
    _slice(7, "blocked", 100, 600, "syscall", "futex"),
    _slice(7, "ready_woken", 600, 800, "syscall", None, 0),
    _slice(7, "running", 800, 950, "syscall", None, 0),
    _slice(7, "fault", 910, 940, "fault"),
    _slice(7, "ready_preempted", 950, 1000, "user", None, 0),
)

PMD = (
    _slice(8, "absent", 0, 200, "unknown"),
    _slice(8, "call", 200, 750, "syscall"),
    _slice(8, "ready_woken", 200, 700, "syscall", None, 1),
    _slice(8, "running", 700, 1000, "user", None, 1),
)

TIMES = {
    7: ThreadTime(
        user_ns=50_000,
        kernel_ns=170_000,
        hard_irq_ns=5_000,
        soft_irq_ns=25_000,
        ready_ns=250_000,
        blocked_ns=500_000,
        stopped_ns=0,
        absent_ns=0,
        unaccounted_ns=0,
    ),
    8: ThreadTime(
        user_ns=250_000,
        kernel_ns=50_000,
        hard_irq_ns=0,
        soft_irq_ns=0,
        ready_ns=500_000,
        blocked_ns=0,
        stopped_ns=0,
        absent_ns=200_000,
        unaccounted_ns=0,
    ),
}


def _thread(tid: int, name: str) -> Thread:
    return replace(bare_thread(tid, name), time=TIMES[tid])


WITH_TIMELINE: Sample = bare_sample(
    _thread(7, "handler1"), _thread(8, "pmd-c01"), window=WINDOW, timeline=(*HANDLER, *PMD)
)


def many_slices(count: int) -> Sample:
    """Some `count` slices of 20 threads that run, wait in a call and are interrupted in turn."""
    threads = tuple(bare_thread(100 + place, f"worker{place}") for place in range(20))
    step = TIMED_WINDOW_NS // (count // 100 + 1)
    slices = [each for thread in threads for each in _turns(thread.tid, step)]
    return bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS), timeline=slices)


def _turns(tid: int, step: int) -> Iterator[Slice]:
    for since in range(_AT, _AT + TIMED_WINDOW_NS - step + 1, step):
        cpu = tid % 4
        woken, on_cpu, done = since + step // 2, since + 5 * step // 8, since + 7 * step // 8
        call = ("futex", "poll", "read")[(since // step + tid) % 3]
        yield Slice(tid, "running", since, since + step // 4, "user", None, cpu)
        yield Slice(tid, "call", since + step // 8, done, "syscall", call)
        yield Slice(tid, "blocked", since + step // 4, woken, "syscall", call)
        yield Slice(tid, "ready_woken", woken, on_cpu, "syscall", None, cpu)
        yield Slice(tid, "running", on_cpu, since + step, "syscall", None, cpu)
        if tid % 5 == 0:
            yield Slice(tid, "soft_irq", done, since + step, "user", "net_rx", cpu)
