"""For each rule of the verdict a Sample that it finds something in, with all that it can say."""

from collections.abc import Iterator
from typing import get_args

from msgspec.structs import replace

from kernel_delay.analysis.verdict import RULES
from kernel_delay.analysis.verdict.packet_losses import LOSS_RULES
from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.analysis.verdict.wait_reasons import WAITS, Wait
from kernel_delay.model import (
    CallCost,
    CgroupLimit,
    ChainGap,
    ChainPart,
    ChainState,
    ChainThread,
    ConntrackLosses,
    CpuTaker,
    CpuUse,
    DatapathLosses,
    FilePeer,
    FlowLimit,
    HardIrqStats,
    HeldProcess,
    Intervals,
    LockWait,
    Lost,
    MemoryLimit,
    OwnerActivity,
    PacketLosses,
    PageFaults,
    PortLosses,
    PortOverrun,
    RelatedLine,
    Round,
    Sample,
    Scheduling,
    Sleep,
    SleepFile,
    SocketOverrun,
    SoftIrqStats,
    Stopper,
    SyscallStats,
    SystemState,
    Target,
    TaskTimes,
    Thread,
    Untraced,
    UpcallStats,
    WaitChain,
    Waker,
)
from tests.unit.samples import START_TIME, TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000
PID = 27090

# The longest name of a thread, and its longest role.
NAME = "ct_clean-abcdef"

RULE_NAMES = [*(rule.name for rule in (*RULES, USER_WORK)), *LOSS_RULES]

LIMITED = MemoryLimit("/kubepods.slice/pod1", 16 << 20, 5000)


def calls(name: str, on_cpu: int, blocked: int = 0, count: int = 1) -> SyscallStats:
    """Calls of a system call that took so many ms on a CPU and asleep."""
    total_ns = (on_cpu + blocked) * MS
    return SyscallStats(0, name, count, total_ns, MS, (), on_cpu * MS, 0, blocked * MS, 0)


def samples_of(rule: str) -> Iterator[Sample]:
    """Samples that the rule finds something in, of one process and of an Open vSwitch's."""
    waits = {f"wait_{wait.reason}": wait for wait in WAITS}
    found = _waits(waits[rule]) if rule in waits else _OF_RULE[rule]()
    for sample in found:
        yield sample
        yield replace(sample, target=Target(PID, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd"))


def _sample(*threads: Thread, **around: object) -> Sample:
    return bare_sample(
        *threads,
        timed_thread(98, "other"),
        window=window(duration_ns=TIMED_WINDOW_NS),
        target=Target(PID, "app", "/usr/bin/python3", command_line=("app: " + "word " * 20,)),
        system_state=SystemState(**around),  # type: ignore[arg-type]
    )


def _alike(thread: Thread) -> tuple[Thread, Thread]:
    """The main thread, and another to which the same happened."""
    return replace(thread, tid=PID), replace(thread, tid=99)


def _polled_locks() -> Iterator[Sample]:
    slept = Sleep("clock", "clock_nanosleep", (), False, 5, 480 * MS, 99 * MS)
    thread = replace(
        timed_thread(PID, NAME), sleeps=(slept,), syscalls=(calls("fcntl", 1, count=5),)
    )
    yield _sample(*_alike(thread), lock_holder=("holder", 70), polled_lock="/srv/db")


def _waits(wait: Wait) -> Iterator[Sample]:
    wakers = (
        Waker("thread", 4242, 4240, "waker", 3, 240 * MS),
        Waker("hard_irq", 0, 0, "", 40, 200 * MS),
    )
    stack = ("new_wait", "mem_cgroup_handle_over_high")
    slept = Sleep(wait.reason, "epoll_pwait2", stack, False, 90, 480 * MS, 99 * MS, wakers)
    thread = replace(timed_thread(PID, NAME), sleeps=(slept,))
    around = {"memory": LIMITED, "lock_holder": ("holder", 70), "lock_shared": True}
    judged = _sample(*_alike(thread), **around)
    yield judged
    yield _in_round(judged)
    by_own = replace(wakers[0], pid=PID, tid=98)
    yield _sample(*_alike(replace(thread, sleeps=(replace(slept, wakers=(by_own,)),))))
    for sleep in (slept, *_on_files(slept)):
        sent = (calls("sendto", 1, count=90),)
        thread = replace(thread, sleeps=(sleep,), syscalls=sent)
        yield _sample(*_alike(thread))
        each = (replace(sleep, ns=160 * MS),)
        yield _sample(*(replace(thread, tid=tid, sleeps=each) for tid in (5, 6, 7)))


def _on_files(slept: Sleep) -> Iterator[Sleep]:
    """The same on each kind of file: nearly all, and most; and to write to it."""
    peers = tuple(FilePeer(4240 + n, "kworker/u:abcd", stopped=n == 0) for n in range(3))
    address = "[2001:db8:1234:5678:9abc:def0:1234:5678]:65432"
    file = SleepFile(5, 1, "file", "/var/lib/" + 9 * "directory/" + "name")
    yield replace(slept, file=file, syscall="fsync")
    tcp = replace(file, kind="tcp", peers=peers[:1], is_client=True)
    for of_kind in (tcp, replace(tcp, peers=peers), replace(tcp, peers=(), peer_address=address)):
        yield replace(slept, file=of_kind, syscall="recvfrom")
    pipe = replace(file, kind="pipe", peers=(replace(peers[0], stopped=False),))
    for call in ("sendmmsg", "recvfrom"):
        yield replace(slept, file=pipe, syscall=call)
        yield replace(slept, file=replace(pipe, more_peers=True), syscall=call)


def _in_round(sample: Sample) -> Sample:
    from tests.unit.test_rounds import sample_of

    return replace(sample, round=sample_of(sample.threads[0]).round)


def _contention() -> Iterator[Sample]:
    takers = tuple(
        CpuTaker(100 + n, "hog", 9, 90 * MS, PID, policy="FIFO", rt_priority=50) for n in range(3)
    )
    pinned = Scheduling("OTHER", 19, 0, (1,))
    starved = replace(
        timed_thread(PID, NAME, ready=300), cpu_taken_by=takers, scheduling=pinned, migrations=3
    )
    cpus = (CpuUse(0, 490 * MS, 0), CpuUse(1, 0, 0))
    yield _sample(*_alike(starved), cpus=cpus)
    many = tuple(CpuUse(cpu, 490 * MS if cpu in (0, 1, 2, 3, 8, 10) else 0, 0) for cpu in range(12))
    for allowed in ((4, 5, 6, 11), (7, 9), (8, 9)):
        pinned = Scheduling("OTHER", 19, 0, allowed)
        yield _sample(*_alike(replace(starved, scheduling=pinned)), cpus=many)
    yield _sample(*_alike(replace(starved, cpu_taken_by=())))
    behind = (CpuTaker(7, "hog", 6, 290 * MS, 7),)
    for policy in ("FIFO", "DEADLINE"):
        budget = replace(starved, scheduling=Scheduling(policy, 0, 5, (0, 1)), cpu_taken_by=behind)
        yield _sample(*_alike(budget))
    yields = replace(calls("sched_yield", 10, count=9000), ready_ns=290 * MS)
    yield _sample(*_alike(replace(starved, syscalls=(yields,))))


def _locks() -> Iterator[Sample]:
    takers = tuple(CpuTaker(100 + n, f"hog{n}", 9, 160 * MS, PID) for n in range(3))
    last = replace(timed_thread(9, "owner", ready=490), cpu_taken_by=takers)
    middle = replace(
        timed_thread(7, "middle"), lock_waits=(LockWait(0xB0, 9, "owner", 1, 490 * MS),)
    )
    waiter = replace(
        timed_thread(PID, NAME), lock_waits=(LockWait(0xA0, 7, "middle", 1, 495 * MS),)
    )
    yield _sample(*_alike(waiter), middle, last)
    yield _sample(*_alike(waiter), middle, replace(last, sleeps=_disk("fsync")))
    yield _sample(*_alike(waiter), replace(middle, tid=6), timed_thread(7, "middle"))
    other = Waker("thread", 10, PID, "slow", 20, 490 * MS)
    slept = Sleep("futex", "futex", (), False, 90, 495 * MS, MS, (other,))
    yield _sample(*_alike(replace(waiter, sleeps=(slept,))), timed_thread(7, "middle"))
    circle = [
        replace(
            timed_thread(tid, NAME),
            lock_waits=(LockWait(tid, owner, NAME, 1, TIMED_WINDOW_NS),),
        )
        for tid, owner in ((PID, 5), (5, 6), (6, 7), (7, PID))
    ]
    yield _sample(*circle)
    yield from _owners_that_were_seen(replace(waiter, lock_waits=()))
    yield _sample(replace(circle[0], lock_waits=(LockWait(1, PID, NAME, 1, TIMED_WINDOW_NS),)))


def _owners_that_were_seen(waiter: Thread) -> Iterator[Sample]:
    """What a lock's owner did in the waits that it ended, of each kind; and for too little."""
    limit = CgroupLimit("/kubepods/pod1", 20 * MS, 100 * MS, 5, 400 * MS, False)
    waits = (LockWait(0xB0, 9, "last", 1, 400 * MS),)
    busy = timed_thread(7, "owner", user=300, kernel=100)
    futex, fsync = calls("futex", 1, 410), calls("fsync", 1, 410)
    owners = (
        (OwnerActivity(490 * MS, 0, 0, 400 * MS), timed_thread(7, "owner", throttled=420)),
        (OwnerActivity(490 * MS, 0, 0, 400 * MS), timed_thread(7, "owner", stopped=420)),
        (OwnerActivity(490 * MS, 0, 0, 400 * MS), timed_thread(7, "owner", frozen=420)),
        (OwnerActivity(490 * MS, 0, 400 * MS, 0), timed_thread(7, "owner", ready=420)),
        (OwnerActivity(490 * MS, 20 * MS, 30 * MS, 40 * MS), busy),
        (OwnerActivity(490 * MS, 0, 0, 0), timed_thread(7, "owner", user=450, kernel=20)),
        (OwnerActivity(490 * MS, 0, 0, 0), timed_thread(7, "owner", user=20, kernel=450)),
        (
            OwnerActivity(490 * MS, 400 * MS, 0, 0, "futex", "futex"),
            replace(timed_thread(7, "owner"), lock_waits=waits, syscalls=(futex,)),
        ),
        (
            OwnerActivity(490 * MS, 400 * MS, 0, 0, "fsync", "disk"),
            replace(timed_thread(7, "owner"), lock_waits=waits, syscalls=(fsync,)),
        ),
        (OwnerActivity(490 * MS, 400 * MS, 0, 0), timed_thread(7, "owner")),
        (OwnerActivity(490 * MS, 170 * MS, 160 * MS, 160 * MS), busy),
        (OwnerActivity(240 * MS, 0, 0, 240 * MS), timed_thread(7, "owner", stopped=240)),
    )
    for seen, owner in owners:
        locked = replace(waiter, lock_waits=(LockWait(0xA0, 7, "owner", 1, 490 * MS, seen),))
        yield _sample(*_alike(locked), owner, timed_thread(9, "last", stopped=490), cgroup=limit)


def _disk(syscall: str) -> tuple[Sleep, ...]:
    return (Sleep("disk", syscall, (), False, 10, 490 * MS, MS),)


def _kernel_sleep() -> Iterator[Sample]:
    waker = Waker("thread", 4242, 4240, "waker", 3, 300 * MS)
    slept = Sleep("unknown", "fsync", (), False, 10, 300 * MS, MS, (waker,))
    fsync = (calls("fsync", 1, 300),)
    yield _sample(*_alike(replace(timed_thread(PID, NAME), syscalls=fsync, sleeps=(slept,))))


def _long_call() -> Iterator[Sample]:
    unshare = replace(calls("unshare", 115, 40), ready_ns=10 * MS)
    thread = timed_thread(PID, NAME, user=330, kernel=115, ready=10)
    yield _sample(*_alike(replace(thread, syscalls=(unshare,))))


def _kernel_work() -> Iterator[Sample]:
    several = tuple(calls(name, 60) for name in ("mmap", "clone3", "munmap", "madvise"))
    works = replace(timed_thread(PID, NAME, kernel=400), syscalls=several)
    yield _sample(*_alike(works), memory=LIMITED)
    yield _sample(*_alike(works), dumping=True)
    tiny = (calls("getppid", 250, count=2_500_000), *several)
    yield _sample(*_alike(replace(works, syscalls=tiny)))
    costly = (calls("getppid", 300, count=100_000),)
    cost = CallCost(call_ns=300, function_ns=22)
    yield _sample(*_alike(replace(works, syscalls=costly)), call_cost=cost)


def _doubtful() -> Iterator[Sample]:
    counted = TaskTimes(20 * MS, 480 * MS, 500_000, 0)
    busy = replace(timed_thread(PID, NAME, user=495), task_times=counted)
    yield _sample(*_alike(busy))
    denied = SyscallStats(110, "getppid", 9000, MS, MS, without_entry=3_000_000, abi="i386")
    irqs = (HardIrqStats("function call", 26_000, 5 * MS, MS),)
    all_causes = replace(busy, signals=100_000, syscalls=(denied,), hard_irqs=irqs)
    yield _sample(*_alike(all_causes), memory=LIMITED, uprobed=True, dumping=True)
    nothing = replace(busy, task_times=replace(counted, minor_faults=0))
    yield _sample(*_alike(nothing))


def _user_work() -> Iterator[Sample]:
    counted = TaskTimes(484 * MS, 12 * MS, 3, 0, steal_ns=0)
    busy = replace(timed_thread(PID, NAME, user=485, kernel=10), task_times=counted)
    yield _sample(*_alike(busy))
    denied = SyscallStats(110, "getppid", 0, 0, 0, without_entry=3_400_000)
    yield _sample(*_alike(replace(busy, syscalls=(denied,))))


def _asleep() -> Iterator[Sample]:
    waker = Waker("thread", 4242, 4240, "waker", 3, 20 * MS)
    for wakers in ((), (waker,), (replace(waker, ns=400 * MS),)):
        slept = tuple(
            Sleep(reason, syscall, (), False, 9, 160 * MS, MS, wakers)  # type: ignore[arg-type]
            for reason, syscall in (
                *(("epoll", "epoll_pwait2"), ("futex", "futex")),
                ("clock", "clock_nanosleep"),
            )
        )
        main = replace(timed_thread(PID, NAME), sleeps=slept)
        yield _sample(main)
        yield _sample(main, *(replace(main, tid=tid) for tid in (5, 6, 7)))
        yield _sample(main, *(replace(main, tid=tid) for tid in range(5, 15)))


def _interrupts() -> Iterator[Sample]:
    flooded = replace(
        timed_thread(PID, NAME, user=279, hard_irq=33, soft_irq=188),
        hard_irqs=(HardIrqStats("eth0", 26_000, 33 * MS, MS),),
        soft_irqs=(SoftIrqStats(3, "net_rx", 26_000, 188 * MS, MS),),
        task_times=TaskTimes(10 * MS, 490 * MS, 0, 0, steal_ns=0),
    )
    yield _sample(*_alike(flooded))


def _stopped() -> Iterator[Sample]:
    thread = timed_thread(PID, NAME, stopped=400)
    often = replace(thread, stopped=Intervals(300, 399 * MS, 9_000, 9 * MS))
    for tracer in (None, ("strace", 99)):
        for stopper in (
            *(None, Stopper(19, 7, "bash", alone=True), Stopper(20, 0, alone=True)),
            Stopper(22, 0, alone=True),
            *(Stopper(19, 7, alone=True), Stopper(19, 7, "bash")),
        ):
            for stops in (thread, often):
                yield _sample(*_alike(stops), tracer=tracer, stopper=stopper)
    for has_left in (False, True):
        left = {"tracer_stopped": True, "tracer_left": has_left}
        yield _sample(*_alike(thread), tracer=("gdb", 99), **left)


def _frozen() -> Iterator[Sample]:
    files = ("/cg/freezer/a b/freezer.state", "/cg/unified/box/cgroup.freeze")
    for freezers in ((), files):
        yield _sample(*_alike(timed_thread(PID, NAME, frozen=300)), freezers=freezers)
    yield _sample(*_alike(timed_thread(PID, NAME, unaccounted=300)), freezers=files)


def _throttled() -> Iterator[Sample]:
    limit = CgroupLimit("/kubepods/pod1", 20 * MS, 100 * MS, 5, 400 * MS, False)
    for cgroup in (None, limit, replace(limit, used_ns=900 * MS)):
        yield _sample(*_alike(timed_thread(PID, NAME, throttled=300)), cgroup=cgroup)


def _steal() -> Iterator[Sample]:
    counted = TaskTimes(400 * MS, 0, 0, 0, steal_ns=100 * MS)
    yield _sample(*_alike(replace(timed_thread(PID, NAME, user=400), task_times=counted)))


def _worker() -> Iterator[Sample]:
    worker = replace(timed_thread(99, "iou-wrk-1", kernel=400), kernel_worker=True)
    yield _sample(worker, replace(worker, tid=97))


def _faults() -> Iterator[Sample]:
    faults = PageFaults(1234, 20 * MS, 80 * MS)
    thread = replace(timed_thread(PID, NAME, kernel=20), page_faults=faults)
    yield _sample(*_alike(thread), memory=LIMITED)


def _own_cost() -> Iterator[Sample]:
    thread = replace(timed_thread(PID, NAME, tool=260), syscalls=(calls("read", 1, count=400_000),))
    yield _sample(*_alike(thread))


def _pmd_iteration() -> Iterator[Sample]:
    for unaccounted in (0, 120):
        thread = timed_thread(PID + 6, NAME, user=500 - unaccounted, unaccounted=unaccounted)
        line = RelatedLine(
            START_TIME, NAME, "iteration", 500, NAME, 500_000, "Excessive total cycles"
        )
        yield replace(
            _sample(thread),
            window=window("iteration", TIMED_WINDOW_NS),
            round=Round(PID + 6, NAME, 0, related=(line,)),
        )


def _wait_chain() -> Iterator[Sample]:
    ways = (ChainThread(5, 5, NAME), ChainThread(6, 6, NAME), ChainThread(7, 7, NAME))
    states: tuple[tuple[ChainState, ChainState], ...] = (
        ("throttled", "running"),
        ("stopped", "runnable"),
        ("running", "frozen"),
    )
    for first, second in states:
        main = ChainPart(ways, first, 300 * MS, cgroup="/batch")
        yield _chained(main, ChainPart(ways, second, 120 * MS))
        yield _with_another(_chained(main), _chained(replace(main, threads=ways[1:])))
        yield _with_another(_chained(main), _chained(replace(main, threads=ways[:2])))
    yield _chained(ChainPart(ways, "blocked", 400 * MS, "clock"), ChainPart((), "unknown", 90 * MS))
    yield _chained(ChainPart(ways, "blocked", 400 * MS, "disk"))
    of_server: tuple[ChainState, ...] = ("running", "throttled")
    for state in of_server:
        parts = [
            ChainPart((ways[0], each), state, 90 * MS, cgroup="/batch")
            for each in _server_threads()
        ]
        process = ChainPart((ChainThread(50, 50, NAME),), "unknown", 90 * MS, gap="threads")
        yield _chained(*parts, replace(parts[0], state="frozen"), process)


def _wait_chain_end() -> Iterator[Sample]:
    title = f"postgres: {'database ' * 12}LOCK TABLE waiting"
    ways = (ChainThread(5, 5, NAME), ChainThread(6, 6, "postgres", title))
    held = tuple(
        HeldProcess(6, pid, "postgres", "stopped", 490 * MS, title, ways[0]) for pid in range(7, 14)
    )
    for gap in get_args(ChainGap):
        for count in (0, 1, 2, 7):
            syscall = None if gap in ("threads", "ran", "not_followed") else "epoll_wait"
            part = ChainPart(ways, "unknown", 500 * MS, "epoll", syscall=syscall, gap=gap)
            yield _chained(part, held=held[:count])
        several = [replace(part, threads=(each,), ns=240 * MS) for each in _server_threads()[:2]]
        yield _chained(*several)


def _wait_chain_several() -> Iterator[Sample]:
    states: tuple[ChainState, ...] = ("running", "runnable", "throttled", "stopped", "frozen")
    programs = [ChainThread(0, 0, NAME), *(ChainThread(n, n, NAME) for n in range(5, 8))]
    for first in states:
        parts = [
            ChainPart((each,), state, ns, cgroup="/batch", by=programs[-1])
            for each in programs
            for state, ns in ((first, 60 * MS), ("blocked", 40 * MS))
        ]
        yield _chained(*parts)


def _idle_server() -> Iterator[Sample]:
    clients = [ChainThread(51 + n, 50 + n, NAME) for n in range(5)]
    for count in (1, 5):
        parts = [ChainPart((each,), "running", 70 * MS, idle=True) for each in clients[:count]]
        stopped = ChainPart((clients[0],), "stopped", 120 * MS, idle=True)
        yield _chained(*parts, stopped)


def _server_threads() -> list[ChainThread]:
    return [ChainThread(51 + n, 50, f"{NAME}-{n}", process=NAME) for n in range(4)]


def _with_another(first: Sample, second: Sample) -> Sample:
    """A thread's chain, and that of another one."""
    other = replace(second.threads[0], tid=97, name="second")
    return replace(first, threads=(*first.threads, other))


def _chained(*parts: ChainPart, held: tuple[HeldProcess, ...] = ()) -> Sample:
    sleep = Sleep("socket_receive", "recvfrom", (), False, 5, 500 * MS, 90 * MS)
    chain = WaitChain(500 * MS, parts, is_bounded=True, held=held)
    thread = replace(timed_thread(PID, NAME), sleeps=(sleep,), chain=chain)
    return _sample(thread)


def _losses() -> Iterator[Sample]:
    """Datapaths in the kernel and in user space, whose reader was late or was not."""
    ports = tuple(PortLosses(f"a-device-{n}", 10**6, 10**6, 10**9, 10**6) for n in range(5))
    sockets = (
        SocketOverrun(1, 4_294_967_295, "GENERIC", 10**6, PID, "a-device-1"),
        SocketOverrun(2, 4_294_967_294, "KOBJECT_UEVENT", 10**6),
    )
    names = "upcall_flow_limit_hit", "upcall_flow_limit_kill", "conntrack_full"
    drops = "datapath_drop_upcall_error", "datapath_drop_lock_error"
    for slept_ms in (0, 500):
        sleep = Sleep("poll", "poll", (), False, 1, slept_ms * MS, slept_ms * MS)
        thread = replace(timed_thread(PID, NAME), sleeps=(sleep,))
        for datapath in ("system@ovs-system", "netdev@ovs-netdev"):
            for limit, before in ((1_000, 200_000), (200_000, None)):
                losses = PacketLosses(
                    (DatapathLosses(datapath, 10**9, 10**6, ports),),
                    sockets,
                    ConntrackLosses(10**6, limit, 10**6, 10**6, 10**6),
                    (FlowLimit(datapath, 10**6, limit, before, 2_300 * MS),),
                    dict.fromkeys((*names, *drops), 10**6),
                    counted_ns=10**12,
                    asked_ns=10**12,
                )
                upcalls = (UpcallStats(11, "EAGAIN", 10**6, ()),)
                yield replace(_sample(thread), packet_losses=losses, upcalls=upcalls)
    yield from _late_readers()
    for of_tables in _full_tables():
        yield replace(_sample(timed_thread(PID, NAME)), packet_losses=of_tables)


def _late_readers() -> Iterator[Sample]:
    """A handler that was late for each reason, or by a little less than counts; and none."""
    datapath = DatapathLosses("system@ovs-system", 7, 5, (PortLosses("veth1", 0, 0, 90, 5),))
    of_handler = SocketOverrun(385, 77, "GENERIC", 5, PID)
    late = "ready", "stopped", "throttled", "frozen", "user", "kernel", "hard_irq", "soft_irq"
    readers = [timed_thread(PID, NAME, **{state: 60}) for state in late]
    readers += [timed_thread(PID, NAME, hard_irq=30, soft_irq=25), timed_thread(PID, NAME, user=49)]
    call = Sleep("futex", "futex", (), False, 2, 70 * MS, 60 * MS)
    unnamed = Sleep("unknown", None, (), False, 2, 90 * MS, 60 * MS)
    readers += [replace(readers[-1], sleeps=sleeps) for sleeps in ((call,), (call, unnamed))]
    for reader in readers:
        for losses in (PacketLosses((datapath,), (of_handler,)), PacketLosses((), (of_handler,))):
            yield replace(_sample(reader), packet_losses=losses)
    for reader in (timed_thread(PID, NAME, throttled=60), timed_thread(PID, NAME, user=49)):
        overruns = (PortOverrun(1, 4, 10**9, "a-device-1"), PortOverrun(2, 5, 10**6))
        yield replace(_sample(reader), packet_losses=PacketLosses(port_overruns=overruns))
    of_nobody = PacketLosses((datapath,), (replace(of_handler, tid=3),))
    yield replace(_sample(timed_thread(PID, NAME)), packet_losses=of_nobody)
    yield replace(_sample(timed_thread(PID, NAME)), packet_losses=PacketLosses((datapath,)))


def _full_tables() -> Iterator[PacketLosses]:
    """Tables of connections and flows that are full, shrank or are only nearly full."""
    yield PacketLosses(events={"conntrack_full": 12}, asked_ns=2 * 10**9)
    for entries, limit, dropped, early in (
        *((95, 100, 3, 0), (94, 100, 3, 0), (94, 100, 0, 4), (94, None, 3, 0), (94, 100, 0, 0)),
    ):
        yield PacketLosses(conntrack=ConntrackLosses(entries, limit, dropped, early, 2))
    for flows, limit, before, dump_ms, hits, deleted in (
        *(
            (950, 1000, 1000, 100, 3, 0),
            (949, 1000, 1000, 100, 3, 0),
            (2100, 1000, None, 100, 0, 2),
        ),
        *((10, 1000, 1001, 1300, 0, 0), (10, 1000, 1001, 1301, 0, 0), (10, 1000, 999, 2000, 0, 0)),
    ):
        found = FlowLimit("system@ovs-system", flows, limit, before, dump_ms * MS)
        events = {"upcall_flow_limit_hit": hits, "upcall_flow_limit_kill": deleted}
        yield PacketLosses(flow_limits=(found,), events=events)
    for received, sent, packets in ((1, 0, 999), (1, 0, 1001), (0, 5, 100), (0, 0, 100)):
        ports = (PortLosses("veth1", received, sent, packets), PortLosses("veth2", 0, 0, 10))
        yield PacketLosses((DatapathLosses("system@ovs-system", 0, 0, ports),))


_OF_RULE = {
    **dict.fromkeys(LOSS_RULES, _losses),
    "cpu_contention": _contention,
    "throttled": _throttled,
    "frozen": _frozen,
    "stopped": _stopped,
    "steal": _steal,
    "lock": _locks,
    "file_lock_polled": _polled_locks,
    "kernel_sleep": _kernel_sleep,
    "long_call": _long_call,
    "kernel_work": _kernel_work,
    "kernel_worker": _worker,
    "page_faults": _faults,
    "doubtful_user": _doubtful,
    "own_cost": _own_cost,
    "pmd_iteration": _pmd_iteration,
    "interrupt_load": _interrupts,
    "asleep": _asleep,
    "user_work": _user_work,
    "wait_chain": _wait_chain,
    "wait_chain_end": _wait_chain_end,
    "wait_chain_several": _wait_chain_several,
    "idle_server": _idle_server,
}

LOST = (
    Lost(missed_events=1, missed_calls=1),
    Lost(missed_events=1200, missed_calls=1200),
    Lost(missed_events=2, missed_switches=2, missed_wakeups=1, missed_context_switches=1),
    Lost(missed_events=3, missed_switches=3, missed_others_switches=1),
    Lost(missed_events=2, missed_switches=2, missed_others_switches=2),
    Lost(missed_events=7, missed_interrupts=7, missed_by_recursion=7),
    Lost(missed_events=3, missed_threads=3),
    Lost(missed_events=9, missed_threads=2, missed_by_recursion=6),
    Lost(missed_events=4),
    Lost(
        missed_events=28,
        missed_calls=7,
        missed_switches=6,
        missed_wakeups=1,
        missed_context_switches=2,
        missed_others_switches=1,
        missed_interrupts=5,
        missed_threads=4,
        untraced=Untraced(123, "hv-agent", 2),
    ),
    Lost(missed_events=2, missed_switches=2, untraced=Untraced(123, "", 1)),
    Lost(missed_events=2, missed_switches=2, untraced=Untraced(123, "hv-agent", 2)),
)
"""What programs can miss: one of a kind and several, of one kind and of many, and why."""
