"""Rules on CPUs: waiting for one, quotas, the hypervisor."""

from collections.abc import Iterator

from kernel_delay.analysis.verdict.cpu_takers import REAL_TIME, REPORT_LESS, is_idle, named_takers
from kernel_delay.analysis.verdict.formatting import length, name, share
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.thread_roles import spins_by_design
from kernel_delay.model import CpuTaker, CpuWeights, Sample, Thread

# A CPU counts as one that idled if it did so for at least this share of the window.
IDLE_SHARE = 0.5

# So much of a wait must have followed on the thread's own sched_yield(2) to be caused by that.
YIELDED_SHARE = 0.5

# So much of a real-time thread's wait tasks of lower priority had, if its own budget is why.
BUDGET_SHARE = 0.5

# Where a cgroup's quota is set.
QUOTA_FILES = "cpu.max, or cgroup v1's cpu.cfs_quota_us"

# Limits of real-time tasks: of all, and of a cgroup, which is mostly far less
# (CONFIG_RT_GROUP_SCHED, kernel/sched/rt.c, 5.14 to 6.18).
_RT_LIMITS = "sched_rt_runtime_us, or cpu.rt_runtime_us of its cgroups (v1)"

# An idle CPU wakes up, and a task that is in the kernel makes way, in less.
SLOW_PREEMPTION_NS = 2_000_000


def _is_quota(sample: Sample, taker: CpuTaker) -> bool:
    """Whether it is the idle task, while a quota of the thread's cgroups ran out.

    Before 6.18 a thread that waits as a process of another cgroup below the same quota uses that
    up is not seen to be throttled: it waits for the quota, on a CPU that idles.
    """
    cgroup = sample.system_state.cgroup if sample.system_state else None
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
    claim = f"{name(case.sample, case.thread)} could run but had no CPU"
    return _gave_up(case, claim) or _out_of_budget(case, claim) or _taken(case, claim)


def _gave_up(case: Case, claim: str) -> Statement | None:
    yielded_ns = _yielded_ns(case.thread)
    # One that polls without sleeping yields to be fair, and wants the CPU back.
    is_poller = spins_by_design(case.sample, case.thread)
    if is_poller or yielded_ns < YIELDED_SHARE * case.lost_ns:
        return None
    part = share(yielded_ns, case.lost_ns)
    detail = f"It gave up the CPU itself (sched_yield) for {part} of that time."
    advice = "Let the program sleep until it has work, instead of yielding."
    return Statement(claim, "program", {"yielded_ns": yielded_ns}, (detail,), advice)


def _out_of_budget(case: Case, claim: str) -> Statement | None:
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
    who = f"It is SCHED_{policy}, but tasks of lower priority, or none, had the CPU for {part}."
    if policy == "DEADLINE":
        why = "It had used up its runtime."
        advice = "Give it more of each period (chrt --sched-runtime), or less to do."
    else:
        why = f"Real-time tasks had used up their limit ({_RT_LIMITS})."
        advice = "Let it sleep now and then, or see these limits and the fair server."
    return Statement(claim, "limit", {"behind_ns": behind_ns}, (who, why), advice)


def _taken(case: Case, claim: str) -> Statement:
    sample, thread = case.sample, case.thread
    possible = [taker for taker in thread.cpu_taken_by if not _is_quota(sample, taker)]
    takers = named_takers(sample, possible, case.lost_ns)
    if not takers:
        unknown = "Who had the CPU is not known, or many tasks had a little of it."
        return Statement(claim, "other-process", details=(unknown,))
    worst = takers[0]
    evidence = dict(worst.evidence)
    if thread.migrations is not None:
        evidence["migrations"] = thread.migrations
    first, *others = (each.text(case.lost_ns) for each in takers[:3])
    ran = [f"Meanwhile {', '.join((f'{first} of that time', *others[:1]))}."]
    # More in one sentence is too long.
    ran += [f"Besides, {each}." for each in others[1:]]
    unknown_ns = thread.cpu_taken_by_unknown_ns
    if unknown_ns > worst.ns:
        ran.append(f"Who had the CPU for {share(unknown_ns, case.lost_ns)} is not known.")
    advice = cpu_advice(sample, thread, worst.worst)
    if advice is None or "affinity" not in advice:
        ran += _restricted(sample, thread)
    return Statement(claim, worst.who, evidence, tuple(ran), advice)


def _restricted(sample: Sample, thread: Thread) -> tuple[str, ...]:
    """Say which CPUs it may run on, if these are not all."""
    if thread.scheduling is None or sample.system_state is None:
        return ()
    cpus = sample.system_state.cpus
    if len(thread.scheduling.cpus) >= len(cpus):
        return ()
    allowed = _list(thread.scheduling.cpus)
    return (f"By its affinity it may run on CPU {allowed} alone, of {len(cpus)} CPUs.",)


def cpu_advice(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    """What helps a thread to the CPU that `taker` had."""
    if taker.is_tool:
        return _less_of_the_tool(sample)
    found = (_precedence(sample, thread, taker), _affinity(sample, thread))
    return " ".join(each for each in found if each) or None


def _less_of_the_tool(sample: Sample) -> str:
    """What lets kernel-delay take less of the CPU that it measures."""
    advice = "Start kernel-delay on another CPU (taskset -c) or with nice -n 19."
    if sample.round is None and sample.syscall_events is not None:
        return f"{REPORT_LESS} {advice}"
    return advice


def _affinity(sample: Sample, thread: Thread) -> str | None:
    """What helps a thread to another CPU."""
    idled = idle_cpus(sample)
    allowed = thread.scheduling.cpus if thread.scheduling else None
    if allowed is None or not idled or set(idled) & set(allowed):
        return None
    return (
        f"CPU {_list(idled)} idled, but its affinity allows it CPU {_list(allowed)} alone:"
        " see taskset -p, and its cpuset."
    )


def _precedence(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    """Why the task went before it, where it is not by turns."""
    if taker.policy == "DEADLINE":
        return f"Take {taker.comm} off its CPU, or give it less time (chrt --sched-runtime)."
    if taker.policy in REAL_TIME:
        return f"Take {taker.comm} off its CPU, or lower its real-time priority (chrt)."
    if thread.scheduling and thread.scheduling.policy == "IDLE" and taker.policy != "IDLE":
        return "It is SCHED_IDLE, and only runs if no other task wants the CPU: chrt --other -p 0."
    return _shares(sample, thread, taker)


def _shares(sample: Sample, thread: Thread, taker: CpuTaker) -> str | None:
    """What helps a thread to a larger part of a CPU that tasks share."""
    around = sample.system_state
    weights = next(
        (each for each in (around.weights if around else ()) if each.pid == taker.pid), None
    )
    if weights and weights.path and weights.weight == 0 < weights.other_weight:
        # The kernel lets nobody set the weight of one that is idle: sched_group_set_shares().
        return (
            f"{weights.path} is idle (cpu.idle), and has a CPU when"
            f" {weights.other_path or taker.comm} wants none. Set its cpu.idle to 0."
        )
    if weights and weights.weight < weights.other_weight and _by_sessions(weights):
        return (
            "The kernel shares CPUs out by sessions (sched_autogroup): the weight of its session is"
            f" {weights.weight}, that of {taker.comm}'s session {weights.other_weight}."
            f" To raise it, write a lower nice value to /proc/{sample.target.pid}/autogroup."
        )
    if weights and weights.weight < weights.other_weight:
        return (
            f"The CPU weight of {weights.path or 'the process'} is {weights.weight}, that of"
            f" {weights.other_path or taker.comm} {weights.other_weight}. Raise the first:"
            " cpu.weight, or cpu.shares of cgroup v1."
        )
    nice = thread.scheduling.nice if thread.scheduling else 0
    if nice <= taker.nice or taker.kernel_thread:
        return None
    values = f"Its nice value is {nice}, {taker.comm}'s {taker.nice}"
    if weights is None:
        # Whether a task that has ended was in the same ones is not known.
        return f"{values}: renice, which counts within a cgroup and a session."
    groups = "sessions (sched_autogroup)" if _by_sessions(weights) else "cgroups"
    return f"{values}. That has no effect: they are in different {groups}."


def _by_sessions(weights: CpuWeights) -> bool:
    return (weights.path or "").startswith("/autogroup-")


def idle_cpus(sample: Sample) -> tuple[int, ...]:
    """CPUs that idled for most of the window."""
    if sample.system_state is None:
        return ()
    least_ns = IDLE_SHARE * sample.window.duration_ns
    return tuple(use.cpu for use in sample.system_state.cpus if use.idle_ns >= least_ns)


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
    of_sleepers=False,
    state="ready",
    least_share=0.05,
    lost_ns=_ready_ns,
    say=_say_contention,
    measures="Time that a thread could run but had no CPU, and the tasks that ran there"
    " meanwhile. Also policy, nice value, affinity, cgroup weights and idle CPUs.",
    limits="Names no task that had less than a tenth of the wait.",
)


def _throttled_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.throttled_ns if thread.time else 0


def _say_throttled(case: Case) -> Statement:
    claim = f"{name(case.sample, case.thread)} was throttled by its cgroup's CPU quota"
    used = tuple(_quota_use(case.sample))
    return Statement(claim, "limit", details=used, advice=quota_advice(case.sample))


def _quota_use(sample: Sample) -> Iterator[str]:
    """Say whether the process or others of its cgroup used the quota up.

    A round has one thread alone. What is not known of a thread it may have run, and where records
    were lost nobody knows of whom.
    """
    limit = sample.system_state.cgroup if sample.system_state else None
    if limit is None or not limit.throttled_ns or not limit.used_ns:
        return
    if sample.round is not None or sample.lost.dropped_records:
        return
    times = [thread.time for thread in sample.threads if thread.time is not None]
    ran_ns = sum(
        time.user_ns + time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns + time.guest_ns
        for time in times
    )
    own_ns = min(ran_ns, limit.used_ns)
    others_ns = limit.used_ns - ran_ns - sum(time.unaccounted_ns for time in times)
    for who, ns in (("The process itself", own_ns), ("Other processes", others_ns)):
        if 2 * ns > limit.used_ns:
            yield f"{who} had {share(ns, limit.used_ns)} of the CPU time that its cgroup used."


def quota_advice(sample: Sample) -> str:
    """What helps against being throttled."""
    limit = sample.system_state.cgroup if sample.system_state else None
    if limit is None or limit.quota_ns is None:
        return f"Raise the CPU quota ({QUOTA_FILES}) of its cgroup."
    quota = f"{length(limit.quota_ns)} each {length(limit.period_ns)}"
    return f"Raise the CPU quota ({QUOTA_FILES}) of {limit.path}, which is {quota}."


THROTTLED = Rule(
    name="throttled",
    of_sleepers=False,
    least_share=0.01,
    lost_ns=_throttled_ns,
    say=_say_throttled,
    measures="Time that a thread was kept off its CPU because a cgroup above had used up"
    " its CFS bandwidth.",
    limits="Before Linux 6.18 the wait for a CPU after the throttling counts as throttling"
    " too. Real-time throttling (sched_rt_runtime_us) counts as `cpu_contention`.",
)


def _steal_ns(sample: Sample, thread: Thread) -> int:
    return (thread.task_times.steal_ns or 0) if thread.task_times else 0


def _say_stolen(case: Case) -> Statement:
    thread = name(case.sample, case.thread)
    claim = f"the hypervisor ran something else while {thread} was on a CPU,"
    return Statement(claim, "hypervisor", advice="Ask the operator of the host for free CPUs.")


STEAL = Rule(
    name="steal",
    least_share=0.05,
    lost_ns=_steal_ns,
    say=_say_stolen,
    measures=("Steal time of the run queue while the thread was on the CPU."),
    limits="Does not detect steal that the hypervisor hides. Needs"
    " CONFIG_PARAVIRT_TIME_ACCOUNTING, which Debian 12, 13 and unstable lack. Ended"
    " threads are left out.",
)
