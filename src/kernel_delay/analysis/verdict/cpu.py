"""Rules on CPUs: waiting for one, quotas, the hypervisor."""

from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, length, name, share
from kernel_delay.model import CpuTaker, Sample, Thread, Who

# A CPU counts as one that idled if it did so for at least this share of the window.
IDLE_SHARE = 0.5

# One who had the CPU for less than that of a wait is not named as having caused it.
TAKER_SHARE = 0.1

# Of a wait, what must have followed on its own sched_yield(2) to be its own doing.
YIELDED_SHARE = 0.5

REAL_TIME = frozenset(("FIFO", "RR", "DEADLINE"))


def _is_idle(taker: CpuTaker) -> bool:
    return taker.comm == "idle" and not taker.tid


def _is_quota(sample: Sample, taker: CpuTaker) -> bool:
    """Whether it is the idle task, while a quota of the thread's cgroups ran out.

    Before 6.18 a thread that waits as a process of another cgroup below the same quota uses that
    up is not seen to be throttled: it waits for the quota, on a CPU that idles.
    """
    cgroup = sample.surroundings.cgroup if sample.surroundings else None
    return cgroup is not None and cgroup.throttled_periods > 0 and _is_idle(taker)


def _ready_ns(sample: Sample, thread: Thread) -> int:
    if thread.time is None:
        return 0
    quota_ns = sum(taker.ns for taker in thread.cpu_taken_by if _is_quota(sample, taker))
    return thread.time.ready_ns - quota_ns


def _yielded_ns(thread: Thread) -> int:
    """How long it had no CPU as it had given that up itself."""
    return sum(call.ready_ns or 0 for call in thread.syscalls if call.name == "sched_yield")


def _say_contention(case: Case) -> Statement | None:
    sample, thread = case.sample, case.thread
    takers = [
        taker
        for taker in thread.cpu_taken_by
        if taker.ns >= TAKER_SHARE * case.lost_ns and not _is_quota(sample, taker)
    ]
    text = (
        f"{name(sample, thread)} could run but had no CPU for {case.of_window}"
        f"{also(sample, case.others)}"
    )
    yielded_ns = _yielded_ns(thread)
    if yielded_ns >= YIELDED_SHARE * case.lost_ns:
        part = share(yielded_ns, case.lost_ns)
        text += f", which it gave up itself (sched_yield) for {part} of that"
        advice = "have it wait for what it waits for, in place of yielding"
        return Statement(text, "program", {"yielded_ns": yielded_ns}, advice)
    if not takers:
        return Statement(f"{text}; who had it is not known, or many had a little", "other-process")
    worst = takers[0]
    evidence = {"taker_tid": worst.tid, "taker_ns": worst.ns}
    if thread.migrations is not None:
        evidence["migrations"] = thread.migrations
    text += "; meanwhile " + ", ".join(_taker(sample, taker, case.lost_ns) for taker in takers[:3])
    return Statement(
        text,
        _who(sample, worst),
        evidence=evidence,
        advice=_advice(sample, thread, worst),
    )


def _taker(sample: Sample, taker: CpuTaker, ready_ns: int) -> str:
    part = share(taker.ns, ready_ns)
    if _is_idle(taker):
        return f"the CPU idled or woke up for {part} of that"
    if _is_own(sample, taker):
        return f"a thread of the same process, {taker.comm} ({taker.tid}), ran for {part} of that"
    how = f", SCHED_{taker.policy}," if taker.policy in REAL_TIME else ""
    return f"{taker.comm} ({taker.tid}){how} ran for {part} of that"


def _is_own(sample: Sample, taker: CpuTaker) -> bool:
    """Whether it is a thread of the process, which may be gone by now."""
    if taker.pid:
        return taker.pid == sample.target.pid
    return bool(taker.tid) and any(taker.tid == own.tid for own in sample.threads)


def _who(sample: Sample, taker: CpuTaker) -> Who:
    if _is_own(sample, taker):
        return "program"
    if taker.kernel_thread or _is_idle(taker):
        return "kernel"
    return "other-process"


def _advice(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    idled = idle_cpus(sample)
    allowed = thread.scheduling.cpus if thread.scheduling else None
    if allowed is not None and idled and not set(idled) & set(allowed):
        return (
            f"CPU {_list(idled)} idled, but its affinity allows it CPU {_list(allowed)} alone:"
            " taskset -p shows and sets that, within its cpuset"
        )
    if taker.policy == "DEADLINE":
        return f"take {taker.comm} off its CPU, or give it less time (chrt --sched-runtime)"
    if taker.policy in REAL_TIME:
        return f"take {taker.comm} off its CPU, or lower its real-time priority (chrt)"
    if thread.scheduling and thread.scheduling.policy == "IDLE" and taker.policy != "IDLE":
        return "it is SCHED_IDLE, and has a CPU when no other task wants that: chrt --other -p 0"
    if thread.scheduling and thread.scheduling.nice > taker.nice and not taker.kernel_thread:
        return f"its nice value is {thread.scheduling.nice}, {taker.comm}'s {taker.nice}: renice"
    return None


def idle_cpus(sample: Sample) -> tuple[int, ...]:
    """CPUs that idled for most of the window."""
    if sample.surroundings is None:
        return ()
    least_ns = IDLE_SHARE * sample.window.duration_ns
    return tuple(use.cpu for use in sample.surroundings.cpus if use.idle_ns >= least_ns)


def _list(cpus: tuple[int, ...]) -> str:
    """CPUs as the kernel lists them: 0-3,8."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)


CPU_CONTENTION = Rule(
    name="cpu_contention",
    least_share=0.05,
    lost_ns=_ready_ns,
    say=_say_contention,
    looks_at="the time a thread could run and had no CPU, and which tasks ran on that CPU"
    " meanwhile, each for how long; its affinity, and which CPUs idled",
    silent_on="who had the CPU, where no task had a tenth of the wait; waits below 0.1 ms in all",
)


def _throttled_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.throttled_ns if thread.time else 0


def _say_throttled(case: Case) -> Statement:
    limit = case.sample.surroundings.cgroup if case.sample.surroundings else None
    text = (
        f"{name(case.sample, case.thread)} was throttled by its cgroup's CPU quota for"
        f" {case.of_window}{also(case.sample, case.others)}"
    )
    advice = "raise the CPU quota (cpu.max) of its cgroup"
    if limit is not None and limit.quota_ns is not None:
        quota = f"{length(limit.quota_ns)} each {length(limit.period_ns)}"
        advice = f"raise the CPU quota (cpu.max) of {limit.path}, which is {quota}"
    return Statement(text, "limit", advice=advice)


THROTTLED = Rule(
    name="throttled",
    least_share=0.01,
    lost_ns=_throttled_ns,
    say=_say_throttled,
    looks_at="the time a thread was kept off its CPU because a cgroup above it had used up its"
    " CFS bandwidth",
    silent_on="when it could run again: the wait for a CPU that follows counts as throttling, until"
    " another of its cgroup has one (before 6.18) or itself; and real-time throttling"
    " (sched_rt_runtime_us), whose waits are cpu_contention",
)


def _steal_ns(sample: Sample, thread: Thread) -> int:
    return (thread.task_times.steal_ns or 0) if thread.task_times else 0


def _say_stolen(case: Case) -> Statement:
    text = (
        f"the hypervisor ran something else while {name(case.sample, case.thread)} was on a CPU,"
        f" for {case.of_window}{also(case.sample, case.others)}"
    )
    return Statement(text, "hypervisor", advice="ask whoever runs the host for CPUs that are free")


STEAL = Rule(
    name="steal",
    least_share=0.05,
    lost_ns=_steal_ns,
    say=_say_stolen,
    looks_at="the steal time of the run queue between a thread's getting on its CPU and leaving it",
    silent_on="steal that the hypervisor does not report to its guest, and that of a kernel"
    " without CONFIG_PARAVIRT_TIME_ACCOUNTING (Debian 12, 13 and unstable); threads that ended",
)
