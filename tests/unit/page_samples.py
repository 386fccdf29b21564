"""Samples for the tests of the page: as many events as asked for, and hostile names."""

from msgspec.structs import replace

from kernel_delay.model import (
    Finding,
    Histogram,
    Intervals,
    Lost,
    Sample,
    Sleep,
    Slice,
    StackFrame,
    SyscallEvent,
    SyscallStats,
    Target,
    Thread,
    Waker,
    Window,
)
from tests.unit.samples import ACCOUNTED, TIMED_WINDOW_NS, bare_sample, timed_thread, window

THREADS = 20
CALLS = ("poll", "futex", "write", "recvmsg", "sendmsg", "fsync", "read", "close", "openat")
HISTOGRAM: Histogram = (0,) * 10 + (400, 90, 12, 0, 3)

# What would end the script that the data is in, or an attribute; a right-to-left override; what
# a template, a format or a regular expression could take for its own.
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<!--<script>",
    "\" onmouseover='fetch(1)'",
    "\u202egnp.exe\u2066",
    "\x00\x1b[31m\r\n",
    "${title} {0} %s \\u003c",
    "(((*+?[",
    "&lt;b&gt;&amp;",
    "\ud800",
)


def sample_with_events(count: int, workers: int = THREADS, **changes: object) -> Sample:
    """A Sample whose threads made `count` calls in all, each from one of some 200 stacks."""
    made = [event(number, count, workers) for number in range(count)]
    threads = [worker(number) for number in range(workers)]
    threads += [timed_thread(900 + number, f"idle{number}") for number in range(40)]
    return bare_sample(
        *threads,
        **{
            "window": window(duration_ns=TIMED_WINDOW_NS),
            "syscall_events": tuple(made),
            "stacks": tuple(stack(number) for number in range(200)),
            "verdict": (CONTENTION, WORK),
        }
        | changes,
    )


CONTENTION = Finding(
    "cpu_contention",
    "other-process",
    0.42,
    100,
    "worker0 (100) could run but had no CPU for 210 ms, 42 % of the window. Give it a CPU.",
    evidence={"lost_ns": 210_000_000, "taker_tid": 4321},
    advice="Give it a CPU.",
)
WORK = Finding("user_work", "program", 0.2, 101, "worker1 (101) ran its own code.", remark=True)


def worker(number: int) -> Thread:
    """A thread that lost more, the higher its number."""
    call = SyscallStats(
        7, "poll", 505, 4_600_000, 90_000, HISTOGRAM, 3_000_000, 600_000, 1_000_000, 0
    )
    thread = timed_thread(
        100 + number, f"worker{number}", user=20, kernel=5, soft_irq=2, ready=10 * number
    )
    sleep = Sleep(
        "poll",
        "poll",
        ("poll_schedule_timeout", "do_poll", "do_sys_poll"),
        False,
        400,
        900_000,
        40_000,
        (Waker("thread", 7, 7, "waker", 300, 800_000),),
    )
    return replace(
        thread,
        syscalls=(call, replace(call, number=1, name="write", total_ns=1_000_000)),
        run=Intervals(10, 25_000_000, 1_000, 9_000_000, HISTOGRAM),
        # What single short waits stand for can be more than there was.
        sleeps=(sleep, replace(sleep, syscall="write", ns=1_500_000, short_ns=1_400_000)),
        cpu_taken_by=ACCOUNTED.threads[0].cpu_taken_by,
        lock_waits=ACCOUNTED.threads[0].lock_waits,
    )


def _call(number: int, name: str, length_ns: int) -> SyscallEvent:
    start_ns = window().start_ns
    return SyscallEvent(100, number, name, start_ns, start_ns + length_ns, 0, None, None, None)


EVENT_LOOP = bare_sample(
    timed_thread(100, "loop"),
    window=window(duration_ns=10_000_000_000),
    syscall_events=(_call(232, "epoll_wait", 9_800_000_000), _call(75, "fdatasync", 200_000_000)),
)
"""Two calls: what a loop waited, and what it worked."""


def event(number: int, count: int, workers: int) -> SyscallEvent:
    """The event of that number out of `count`: those of a thread follow one on the other."""
    start_ns = window().start_ns
    place = number // workers
    each_ns = TIMED_WINDOW_NS * workers // max(count, workers)
    entry_ns = start_ns + place * each_ns
    call = (number * 7) % len(CALLS)
    length_ns = each_ns * (1 + number % 9) // 10
    tid = 100 + number % workers
    where = (number * 13) % 200
    exit_ns = entry_ns + length_ns
    # Of every tenth it is not known; the others were off the CPUs for half of their time.
    off_cpu_ns = length_ns // 2 if number % 10 else None
    name = CALLS[call]
    return SyscallEvent(tid, call, name, entry_ns, exit_ns, 0, None, where, None, off_cpu_ns)


def stack(number: int) -> tuple[StackFrame, ...]:
    """A stack of 12 functions, the innermost first."""
    outer = [StackFrame(at, f"outer_{at}_{number % 3}", 0, "/usr/bin/prog") for at in range(6)]
    inner = [StackFrame(at, f"inner_{at}_{number % 29}", 0, "/lib/libc.so.6") for at in range(6)]
    return (*inner, *outer)


def hostile_sample() -> Sample:
    """A Sample in which each name that others choose is hostile."""
    frames = tuple(StackFrame(8, name, 1, f"/{name}") for name in HOSTILE)
    threads = [
        replace(
            worker(place),
            name=name,
            syscalls=(SyscallStats(9, name, 2, 3_000, 2_000),),
            lock_waits=tuple(replace(lock, name=name) for lock in ACCOUNTED.threads[0].lock_waits),
            cpu_taken_by=tuple(
                replace(taker, comm=name) for taker in ACCOUNTED.threads[0].cpu_taken_by
            ),
            sleeps=(
                Sleep("poll", name, (name,), True, 1, 5, 5, (Waker("thread", 1, 1, name, 1, 5),)),
            ),
        )
        for place, name in enumerate(HOSTILE)
    ]
    start_ns = window().start_ns
    events = tuple(
        SyscallEvent(100 + place, 9, name, start_ns + 9, start_ns + 9_000, -1, None, 0)
        for place, name in enumerate(HOSTILE)
    )
    slices = tuple(
        Slice(100 + place, "call", start_ns + 9, start_ns + 9_000, "syscall", name)
        for place, name in enumerate(HOSTILE)
    )
    return bare_sample(
        *threads,
        timeline=slices,
        window=window(duration_ns=TIMED_WINDOW_NS),
        target=Target(27090, HOSTILE[0], HOSTILE[1]),
        host=HOSTILE[0],
        kernel=HOSTILE[2],
        syscall_events=events,
        stacks=(frames,),
        lost=Lost(missed_events=3),
        verdict=tuple(
            Finding("lock", "program", 0.1, 100, name, advice=name, evidence={name: 1})
            for name in HOSTILE[:3]
        ),
    )


def series_of(count: int, workers: int = THREADS) -> list[Sample]:
    """Samples one after the other, each of 500 ms and with a pause of 100 ms after it."""
    step_ns = TIMED_WINDOW_NS + 100_000_000
    return [later(sample_with_events(100, workers), step_ns * number) for number in range(count)]


def later(sample: Sample, by_ns: int) -> Sample:
    """The same, but so much later."""
    old: Window = sample.window
    moved = replace(old, start_ns=old.start_ns + by_ns, stop_ns=old.stop_ns + by_ns)
    events = tuple(
        replace(each, entry_ns=each.entry_ns + by_ns, exit_ns=each.exit_ns + by_ns)
        for each in sample.syscall_events or ()
    )
    return replace(sample, window=moved, syscall_events=events)
