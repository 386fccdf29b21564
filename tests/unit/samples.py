"""Samples for the tests: one that shows everything, and strategies for any."""

import datetime

from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.model import (
    CpuTaker,
    Finding,
    HardIrqStats,
    Intervals,
    LockWait,
    Lost,
    PageFaults,
    Sample,
    SoftIrqStats,
    SyscallStats,
    Target,
    Thread,
    ThreadTime,
    Window,
)

TIMED_WINDOW_NS = 500_000_000

START_TIME = datetime.datetime(2023, 6, 8, 10, 17, 22, 725127, tzinfo=datetime.UTC)


def bare_thread(tid: int, name: str, exited: bool = False) -> Thread:
    """A thread of which nothing was counted."""
    return Thread(tid, name, exited, (), None, None, None, None, (), ())


def timed_thread(tid: int, name: str, **parts: int) -> Thread:
    """A thread whose window of 500 ms went where `parts` say, in ms, and was blocked else."""
    fields = ThreadTime.__struct_fields__
    times_ns = {field: parts.get(field.removesuffix("_ns"), 0) * 1_000_000 for field in fields}
    times_ns["blocked_ns"] += TIMED_WINDOW_NS - sum(times_ns.values())
    return replace(bare_thread(tid, name), time=ThreadTime(**times_ns))


def bare_sample(*threads: Thread, **changes: object) -> Sample:
    """A Sample of half a second with `threads`, and `changes` to its other fields."""
    fields: dict[str, object] = {
        "schema": "kernel-delay/3",
        "target": Target(27090, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd"),
        "kernel": "6.1.0-30-amd64",
        "host": "compute-1",
        "window": window(),
        "threads": threads,
    }
    return Sample(**(fields | changes))  # type: ignore[arg-type]


def window(ended_by: str = "time", duration_ns: int = 499_654_000) -> Window:
    """A window from START_TIME on."""
    return Window(
        start_ns=791_777_093_512_008,
        stop_ns=791_777_093_512_008 + duration_ns,
        duration_ns=duration_ns,
        start_time=START_TIME,
        collected_time=START_TIME
        + datetime.timedelta(microseconds=duration_ns // 1000)
        + datetime.timedelta(microseconds=74),
        ended_by=ended_by,  # type: ignore[arg-type]
    )


# The numbers of revalidator122 are those of the example in the manual of
# kernel_delay.py, whose times are two hours ahead of UTC; they stand here in
# another order than there.
REVALIDATOR = Thread(
    tid=31741,
    name="revalidator122",
    exited=False,
    syscalls=(
        SyscallStats(0, "read", 1, 1_292, 1_292),
        SyscallStats(1, "write", 1, 5_949, 5_949),
        SyscallStats(7, "poll", 5, 184_193_176, 184_191_520),
        SyscallStats(44, "sendto", 10, 375_861, 266_867),
        SyscallStats(46, "sendmsg", 4, 43_294, 11_213),
        SyscallStats(47, "recvmsg", 494, 125_208_756, 310_331),
        SyscallStats(98, "getrusage", 1, 1_424, 1_424),
        SyscallStats(202, "futex", 8, 18_768_758, 4_023_039),
    ),
    long_poll=Intervals(58, 4_452_834, 7_388, 234_129),
    run=Intervals(6, 136_764_071, 1_480, 115_146_424),
    ready=Intervals(7, 11_334, 1_002, 6_636),
    stopped=Intervals(3, 3_045_728_323, 1_012_000_000, 1_015_739_474),
    hard_irqs=(HardIrqStats("eno8303-rx-1", 1, 3_586, 3_586),),
    soft_irqs=(
        SoftIrqStats(1, "timer", 3, 10_259, 3_815),
        SoftIrqStats(3, "net_rx", 1, 17_699, 17_699),
        SoftIrqStats(7, "sched", 6, 13_820, 3_226),
        SoftIrqStats(9, "rcu", 16, 13_586, 1_554),
    ),
)

# What the manual's example lacks: numbers without names, names too long for
# their column or with control characters, only polls, threads of one name.
ODD = Thread(
    tid=31742,
    name="a\x1b[31mb\nc",
    exited=True,
    syscalls=(
        SyscallStats(9999, None, 2, 3_000, 2_000),
        SyscallStats(444, "landlock_create_ruleset", 1, 4_000, 4_000),
    ),
    long_poll=None,
    run=None,
    ready=None,
    stopped=None,
    hard_irqs=(
        HardIrqStats("mlx5_comp12@pci:0000:5e:00.0", 2, 2_468, 1_234),
        HardIrqStats("eth0\r\x07", 3, 12_345, 12_000),
    ),
    soft_irqs=(SoftIrqStats(42, None, 1, 1_000, 1_000),),
)
POLLER = Thread(
    tid=27090,
    name="ovs-vswitchd",
    exited=False,
    syscalls=(SyscallStats(7, "poll", 1, 5, 5),),
    long_poll=None,
    run=None,
    ready=None,
    stopped=None,
    hard_irqs=(),
    soft_irqs=(),
)

EVERYTHING = bare_sample(
    REVALIDATOR,
    bare_thread(31799, "handler9"),
    bare_thread(31750, "handler10"),
    POLLER,
    bare_thread(31760, "handler9", exited=True),
    ODD,
    window=window(ended_by="exit"),
    lost=Lost(dropped_records=12, missed_events=345),
)


RECVMSGS = (0,) * 22 + (6, 1)

ACCOUNTED = bare_sample(
    replace(
        timed_thread(31741, "revalidator122", user=250, kernel=50, ready=87, hard_irq=1),
        preempted_ns=80_000_000,
        syscalls=(
            SyscallStats(7, "poll", 0, 0, 0, (), 0, 7_000_000, 100_000_000, 0),
            SyscallStats(
                47,
                "recvmsg",
                7,
                50_000_000,
                9_000_000,
                (0,) * 22 + (6, 1),
                45_000_000,
                5_000_000,
                0,
                0,
            ),
        ),
        run=Intervals(6, 136_764_071, 1_480, 115_146_424, (0,) * 10 + (5,) + (0,) * 15 + (1,)),
        cpu_taken_by=(
            CpuTaker(4321, "stress\x1b", 90, 79_000_000, 4300, "FIFO", 0, 7),
            CpuTaker(0, "idle", 12, 5_000_000),
        ),
        cpu_taken_by_others_ns=2_000_000,
        cpu_taken_by_unknown_ns=1_000_000,
        lock_waits=(
            LockWait(0x55A9_887C_50A0, 31742, "revalidator123", 3, 12_000_000),
            LockWait(0, 31743, "revalidator124", 40, 5_000_000),
        ),
        lock_waits_others_ns=700_000,
        page_faults=PageFaults(12, 4_000_000, 0),
    ),
    timed_thread(27090, "ovs-vswitchd", stopped=40, unaccounted=1, absent=100),
    window=window(duration_ns=TIMED_WINDOW_NS),
    verdict=(Finding("cpu_contention", "other-process", 0.174, 31741, "no CPU for \x1b a while."),),
)


def samples(counts: st.SearchStrategy[int], times: st.SearchStrategy[int]) -> st.SearchStrategy:
    """Any Sample, with its counts and times drawn from these."""
    names = st.text(max_size=30)
    intervals = st.none() | st.builds(Intervals, counts, total_ns=times, min_ns=times, max_ns=times)
    rows = {"count": counts, "total_ns": times, "max_ns": times}
    syscalls = st.builds(
        SyscallStats, number=st.integers(-1, 99_999), name=st.none() | names, **rows
    )
    hard_irqs = st.builds(HardIrqStats, name=names, **rows)
    soft_irqs = st.builds(
        SoftIrqStats, vector=st.integers(0, 1 << 16), name=st.none() | names, **rows
    )
    threads = st.builds(
        Thread,
        tid=st.integers(1, 4_194_304),
        name=names,
        exited=st.booleans(),
        syscalls=st.lists(syscalls, max_size=4).map(tuple),
        long_poll=intervals,
        run=intervals,
        ready=intervals,
        stopped=intervals,
        hard_irqs=st.lists(hard_irqs, max_size=3).map(tuple),
        soft_irqs=st.lists(soft_irqs, max_size=3).map(tuple),
    )
    dates = st.datetimes(
        min_value=datetime.datetime(1970, 1, 2),
        max_value=datetime.datetime(2200, 1, 1),
        timezones=st.just(datetime.UTC),
    )
    windows = st.builds(
        Window,
        start_ns=times,
        stop_ns=times,
        duration_ns=times,
        start_time=dates,
        collected_time=dates,
        ended_by=st.sampled_from(["time", "trigger", "interrupt", "exit", "timeout"]),
    )
    return st.builds(
        Sample,
        schema=st.just("kernel-delay/3"),
        target=st.builds(Target, st.integers(1, 4_194_304), names, st.none() | names),
        kernel=names,
        host=names,
        window=windows,
        threads=st.lists(threads, max_size=3).map(tuple),
        lost=st.builds(Lost, st.integers(0, 1 << 64), st.integers(0, 1 << 64)),
    )


COUNTS = st.integers(1, 1 << 64)
TIMES = st.integers(0, 1 << 61)
FITTING_COUNTS = st.integers(1, 10**10 - 1)
"""Counts that fit their column of 10."""
FITTING_TIMES = st.integers(0, 10**12 - 1)
"""Times that fit their column of 16 with separators: up to a quarter of an hour."""
