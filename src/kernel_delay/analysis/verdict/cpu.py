"""Rules on CPUs: waiting for one, quotas, the hypervisor."""

from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.takers import REAL_TIME, is_idle, told_takers
from kernel_delay.analysis.verdict.words import also, length, name, share
from kernel_delay.model import CpuTaker, CpuWeights, Sample, Thread

# A CPU counts as one that idled if it did so for at least this share of the window.
IDLE_SHARE = 0.5

# Of a wait, what must have followed on its own sched_yield(2) to be its own doing.
YIELDED_SHARE = 0.5

# Of a real-time thread's wait, what tasks had that it goes before, for its own budget to be why.
BUDGET_SHARE = 0.5

# Where a cgroup's quota is set.
QUOTA_FILES = "cpu.max, or cgroup v1's cpu.cfs_quota_us"

# What real-time tasks may have: of all, and of a cgroup, which is mostly far less
# (CONFIG_RT_GROUP_SCHED, kernel/sched/rt.c, 5.14 to 6.18).
_RT_LIMITS = "sched_rt_runtime_us, or cpu.rt_runtime_us of its cgroups (v1)"

# An idle CPU wakes up, and a task that is in the kernel makes way, in less.
SLOW_PREEMPTION_NS = 2_000_000


def _is_quota(sample: Sample, taker: CpuTaker) -> bool:
    """Whether it is the idle task, while a quota of the thread's cgroups ran out.

    Before 6.18 a thread that waits as a process of another cgroup below the same quota uses that
    up is not seen to be throttled: it waits for the quota, on a CPU that idles.
    """
    cgroup = sample.surroundings.cgroup if sample.surroundings else None
    return cgroup is not None and cgroup.throttled_periods > 0 and is_idle(taker)


def _ready_ns(sample: Sample, thread: Thread) -> int:
    if thread.time is None:
        return 0
    quota_ns = sum(taker.ns for taker in thread.cpu_taken_by if _is_quota(sample, taker))
    return thread.time.ready_ns - quota_ns


def _yielded_ns(thread: Thread) -> int:
    """How long it had no CPU as it had given that up itself."""
    return sum(call.ready_ns or 0 for call in thread.syscalls if call.name == "sched_yield")


def _ended_its_period(case: Case) -> bool:
    """Whether it did not want the CPU: SCHED_DEADLINE yields until its next period (sched(7))."""
    policy = case.thread.scheduling.policy if case.thread.scheduling else None
    return policy == "DEADLINE" and _yielded_ns(case.thread) >= YIELDED_SHARE * case.lost_ns


def _say_contention(case: Case) -> Statement | None:
    if _ended_its_period(case):
        return None
    text = (
        f"{name(case.sample, case.thread)} could run but had no CPU for {case.of_window}"
        f"{also(case.sample, case.others)}"
    )
    return _gave_up(case, text) or _out_of_budget(case, text) or _taken(case, text)


def _gave_up(case: Case, text: str) -> Statement | None:
    yielded_ns = _yielded_ns(case.thread)
    if yielded_ns < YIELDED_SHARE * case.lost_ns:
        return None
    part = share(yielded_ns, case.lost_ns)
    text += f", which it gave up itself (sched_yield) for {part} of that"
    advice = "have it wait for what it waits for, in place of yielding"
    return Statement(text, "program", {"yielded_ns": yielded_ns}, advice)


def _out_of_budget(case: Case, text: str) -> Statement | None:
    """A real-time thread waits for no other task, unless what it may use of the CPUs is used up."""
    policy = case.thread.scheduling.policy if case.thread.scheduling else None
    if policy not in REAL_TIME:
        return None
    before_it = ("DEADLINE",) if policy == "DEADLINE" else REAL_TIME
    behind = [taker for taker in case.thread.cpu_taken_by if taker.policy not in before_it]
    behind_ns = sum(taker.ns for taker in behind)
    waits = max((taker.waits for taker in behind), default=0)
    if behind_ns < max(BUDGET_SHARE * case.lost_ns, waits * SLOW_PREEMPTION_NS):
        return None
    part = share(behind_ns, case.lost_ns)
    text += f"; it is SCHED_{policy}, and tasks that it goes before, or none, had that for {part}"
    if policy == "DEADLINE":
        text += " of that: it had used up its runtime"
        advice = "give it more of each period (chrt --sched-runtime), or less to do"
    else:
        text += f" of that: real-time tasks had used up what they may ({_RT_LIMITS})"
        advice = "have it sleep now and then, or see these and the fair server"
    return Statement(text, "limit", {"behind_ns": behind_ns}, advice)


def _taken(case: Case, text: str) -> Statement:
    sample, thread = case.sample, case.thread
    possible = [taker for taker in thread.cpu_taken_by if not _is_quota(sample, taker)]
    takers = told_takers(sample, possible, case.lost_ns)
    if not takers:
        return Statement(f"{text}; who had it is not known, or many had a little", "other-process")
    worst = takers[0]
    evidence = dict(worst.evidence)
    if thread.migrations is not None:
        evidence["migrations"] = thread.migrations
    text += "; meanwhile " + ", ".join(each.text(case.lost_ns) for each in takers[:3])
    advice = cpu_advice(sample, thread, worst.worst)
    return Statement(text, worst.who, evidence, advice)


def cpu_advice(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    """What helps a thread to the CPU that `taker` had."""
    found = (_precedence(sample, thread, taker), _affinity(sample, thread))
    return "; ".join(each for each in found if each) or None


def _affinity(sample: Sample, thread: Thread) -> str | None:
    """What helps a thread to another CPU."""
    idled = idle_cpus(sample)
    allowed = thread.scheduling.cpus if thread.scheduling else None
    if allowed is None or not idled or set(idled) & set(allowed):
        return None
    return (
        f"CPU {_list(idled)} idled, but its affinity allows it CPU {_list(allowed)} alone:"
        " taskset -p shows and sets that, within its cpuset"
    )


def _precedence(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    """Why the task went before it, where it is not by turns."""
    if taker.policy == "DEADLINE":
        return f"take {taker.comm} off its CPU, or give it less time (chrt --sched-runtime)"
    if taker.policy in REAL_TIME:
        return f"take {taker.comm} off its CPU, or lower its real-time priority (chrt)"
    if thread.scheduling and thread.scheduling.policy == "IDLE" and taker.policy != "IDLE":
        return "it is SCHED_IDLE, and has a CPU when no other task wants that: chrt --other -p 0"
    return _shares(sample, thread, taker)


def _shares(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    """What helps a thread to a larger part of a CPU that tasks share."""
    around = sample.surroundings
    weights = next(
        (each for each in (around.weights if around else ()) if each.pid == taker.pid), None
    )
    if weights and weights.path and weights.weight == 0 < weights.other_weight:
        # The kernel lets nobody set the weight of one that is idle: sched_group_set_shares().
        return (
            f"{weights.path} is idle (cpu.idle), and has a CPU when"
            f" {weights.other_path or taker.comm} wants none: set its cpu.idle to 0"
        )
    if weights and weights.weight < weights.other_weight and _by_sessions(weights):
        return (
            f"its session (sched_autogroup) weighs {weights.weight}, {taker.comm}'s"
            f" {weights.other_weight}: a lower nice value in /proc/{sample.target.pid}/autogroup"
            " raises it"
        )
    if weights and weights.weight < weights.other_weight:
        return (
            f"the CPU weight of {weights.path or 'the process'} is {weights.weight}, that of"
            f" {weights.other_path or taker.comm} {weights.other_weight}: raise it (cpu.weight;"
            " cpu.shares of cgroup v1)"
        )
    nice = thread.scheduling.nice if thread.scheduling else 0
    if nice <= taker.nice or taker.kernel_thread:
        return None
    values = f"its nice value is {nice}, {taker.comm}'s {taker.nice}"
    if weights is None:
        # Whether a task that has ended was in the same ones is not known.
        return f"{values}: renice, which counts within a cgroup and a session"
    within = "session (sched_autogroup)" if _by_sessions(weights) else "cgroup"
    return f"{values}, which counts within a {within}, and theirs differ"


def _by_sessions(weights: CpuWeights) -> bool:
    return (weights.path or "").startswith("/autogroup-")


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
    " meanwhile, each for how long; its policy, nice value and affinity, what the cgroups weigh,"
    " and which CPUs idled",
    silent_on="who had the CPU, where no task had a tenth of the wait; waits below 0.1 ms in all",
)


def _throttled_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.throttled_ns if thread.time else 0


def _say_throttled(case: Case) -> Statement:
    text = (
        f"{name(case.sample, case.thread)} was throttled by its cgroup's CPU quota for"
        f" {case.of_window}{also(case.sample, case.others)}"
    )
    return Statement(text, "limit", advice=quota_advice(case.sample))


def quota_advice(sample: Sample) -> str:
    """What helps against being throttled."""
    limit = sample.surroundings.cgroup if sample.surroundings else None
    if limit is None or limit.quota_ns is None:
        return f"raise the CPU quota ({QUOTA_FILES}) of its cgroup"
    quota = f"{length(limit.quota_ns)} each {length(limit.period_ns)}"
    return f"raise the CPU quota ({QUOTA_FILES}) of {limit.path}, which is {quota}"


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
