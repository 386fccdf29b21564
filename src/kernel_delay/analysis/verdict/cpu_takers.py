"""Who had the CPU of a thread: tasks, by name or one by one, interrupts, and the tool itself."""

from collections.abc import Sequence

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import largest_part, length, name, share
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.user_work import (
    DOUBTFUL_USER,
    causes_of,
    doubtful_ns,
    interrupts_of,
    is_doubtful,
    newest_signal,
    per_s,
    signals_of,
)
from kernel_delay.host.kernel_names import IRQ_VECTORS
from kernel_delay.model import CpuTaker, Sample, Thread, Who

# A task that had the CPU for a smaller part of a wait did not cause it.
TAKER_SHARE = 0.1

# More of one name are named together, as a crowd's single tasks say little.
NAMED_SINGLY = 3

REAL_TIME = frozenset(("FIFO", "RR", "DEADLINE"))


class Takers(Struct, frozen=True):
    """A task, or several of one name or of the target, and how long they had the CPU.

    `worst` is the one that had it longest.
    """

    worst: CpuTaker
    tasks: int
    ns: int
    own: bool

    def text(self, ready_ns: int) -> str:
        """What they did, as a part of the wait."""
        part = share(self.ns, ready_ns)
        if is_idle(self.worst):
            return f"the CPU idled or woke up for {part}"
        return f"{self.named()} ran for {part}"

    def named(self, *, whose: bool = True) -> str:
        """Who they are; with `whose`, whether one is a thread of the same process."""
        worst = self.worst
        how = f", SCHED_{worst.policy}," if worst.policy in REAL_TIME else ""
        if worst.is_tool:
            return "kernel-delay itself"
        if self.own and self.tasks > 1:
            return f"{self.tasks} threads of the same process"
        if self.tasks > 1:
            return f"{self.tasks} tasks called {worst.comm}{how}"
        task = f"{worst.comm} ({worst.tid})"
        return f"{task} of the same process{how}" if self.own and whose else f"{task}{how}"

    @property
    def who(self) -> Who:
        """Who or what caused the delay."""
        if self.own:
            return "program"
        if self.worst.is_tool:
            return "tool"
        return "kernel" if self.worst.kernel_thread or is_idle(self.worst) else "other-process"

    @property
    def evidence(self) -> dict[str, int]:
        """The figures."""
        which = {"taker_tid": self.worst.tid} if self.tasks == 1 else {"takers": self.tasks}
        return {**which, "taker_ns": self.ns}


def is_idle(taker: CpuTaker) -> bool:
    """Whether it is no task: the CPU idled."""
    return taker.comm == "idle" and not taker.tid


def named_takers(sample: Sample, takers: Sequence[CpuTaker], ready_ns: int) -> tuple[Takers, ...]:
    """Return who had the CPU for a part that matters, longest first."""
    least_ns = TAKER_SHARE * ready_ns
    alike: dict[tuple[str, bool, bool, bool], list[CpuTaker]] = {}
    for taker in takers:
        own = _is_own(sample, taker)
        key = ("" if own or taker.is_tool else taker.comm, own, is_idle(taker), taker.is_tool)
        alike.setdefault(key, []).append(taker)
    found = []
    for (_, own, _, is_tool), tasks in alike.items():
        singly = [taker for taker in tasks if taker.ns >= least_ns]
        ns = sum(taker.ns for taker in tasks)
        rest_ns = ns - sum(taker.ns for taker in singly)
        is_crowd = len(singly) > NAMED_SINGLY or rest_ns >= least_ns
        is_crowd = is_crowd or (is_tool and ns >= least_ns)
        if is_crowd and len(tasks) > 1:
            worst = max(tasks, key=lambda each: each.ns)
            found.append(Takers(worst, len(tasks), ns, own))
        else:
            found += [Takers(taker, 1, taker.ns, own) for taker in singly]
    return tuple(sorted(found, key=lambda each: (-each.ns, each.worst.tid)))


def _is_own(sample: Sample, taker: CpuTaker) -> bool:
    """Whether it is a thread of the process, which may be gone by now."""
    if taker.pid:
        return taker.pid == sample.target.pid
    return bool(taker.tid) and any(taker.tid == own.tid for own in sample.threads)


def foreign_interrupt_ns(sample: Sample, thread: Thread) -> int:
    """Interrupts' time on a thread that its own calls did not raise."""
    if thread.time is None:
        return 0
    return thread.time.hard_irq_ns + thread.time.soft_irq_ns - thread.own_soft_irq_ns


def _say_interrupts(case: Case) -> Statement:
    thread = case.thread
    irqs = [(irq.total_ns, irq.name) for irq in thread.hard_irqs]
    irqs += [(irq.total_ns, f"soft {irq.name or irq.vector}") for irq in thread.soft_irqs]
    details: tuple[str, ...] = ()
    if irqs:
        most_ns, most = max(irqs)
        # With what its own calls raised it can be more than what others did.
        how_long = f", {length(most_ns)}" if most_ns <= case.lost_ns else ""
        part = largest_part(most_ns, max(case.lost_ns, sum(ns for ns, _ in irqs))).capitalize()
        details = (f"{part} was {most}{how_long}.", *_signals_of_timers(case, most))
    doubtful = _beside_handlers(case)
    return Statement(
        f"interrupts took the CPU from {name(case.sample, thread)}",
        "kernel",
        {"interrupts": sum(irq.count for irq in thread.hard_irqs)},
        (*details, *doubtful),
        _irq_advice(thread),
        frozenset([(DOUBTFUL_USER.name, thread.tid)] if doubtful else []),
    )


# What the CPU's own timer interrupts by: see IRQ_VECTORS, and drivers/clocksource/arm_arch_timer.c.
_TIMERS = frozenset((IRQ_VECTORS[0xEC], "arch_timer"))


def _signals_of_timers(case: Case, most: str) -> tuple[str, ...]:
    """The signals that may be why a timer interrupts so often: as of timer_create(2)."""
    sample, thread = case.sample, case.thread
    interrupts = sum(irq.count for irq in thread.hard_irqs if irq.name in _TIMERS)
    signals = signals_of(sample, thread)
    if most not in _TIMERS or signals is None or 2 * (thread.signals or 0) < interrupts:
        return ()
    newest = newest_signal(sample, thread)
    return (f"It had {signals}: a timer that sends them may be why.", *newest)


def _beside_handlers(case: Case) -> tuple[str, ...]:
    """What entering and leaving so many interrupts took besides, where nothing else explains it.

    The kernel counts that as its own, and the handlers' tracepoints are within it.
    """
    sample, thread = case.sample, case.thread
    interrupts = interrupts_of(sample, thread)
    if interrupts is None or not is_doubtful(sample, thread) or causes_of(sample, thread):
        return ()
    another = length(doubtful_ns(thread))
    return (f"To enter and leave {interrupts} may have taken another {another}.",)


# Soft IRQs that a device's interrupts raise; the others are timers', RCU's, the scheduler's.
_OF_DEVICES = frozenset(("net_tx", "net_rx", "block", "irq_poll"))
_OWN_HARD_IRQS = frozenset(IRQ_VECTORS.values())


def _irq_advice(thread: Thread) -> str | None:
    """How a device's interrupts are kept off the CPU; None if most are the kernel's own."""
    of_devices = [irq.total_ns for irq in thread.hard_irqs if irq.name not in _OWN_HARD_IRQS]
    of_devices += [irq.total_ns for irq in thread.soft_irqs if irq.name in _OF_DEVICES]
    all_ns = sum(irq.total_ns for irq in thread.hard_irqs)
    all_ns += sum(irq.total_ns for irq in thread.soft_irqs)
    if 2 * sum(of_devices) < all_ns:
        return None
    if all(irq.name in _OWN_HARD_IRQS for irq in thread.hard_irqs):
        # Another CPU had them (RPS), or a sender on this one.
        return "See who sends on this CPU, and /sys/class/net/*/queues/*/rps_cpus."
    return "See /proc/interrupts and the IRQs' smp_affinity."


INTERRUPTS = Rule(
    name="interrupt_load",
    of_sleepers=False,
    state="irq",
    least_share=0.05,
    lost_ns=foreign_interrupt_ns,
    say=_say_interrupts,
    measures=("Hard and soft IRQs in the thread's time on a CPU."),
    limits="Leaves out soft IRQs that the thread's own sending raised. In a record of"
    " `watch`, soft IRQs count from a tenth of the threshold on. Vectors without an"
    " irq_handler, as the timer's, count as user and kernel time.",
)


# From there on it changes what it measures.
OWN_COST_SHARE = 0.05

REPORT_LESS = "With -s DURATION_NS only longer calls are reported."


def _tool_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.tool_ns if thread.time else 0


def _say_cost(case: Case) -> Statement:
    sample, thread = case.sample, case.thread
    calls = sum(stats.count for stats in thread.syscalls)
    who = name(sample, thread)
    claim = f"kernel-delay's own reports of calls (-s) took the CPU from {who}"
    made = f"The thread made {per_s(calls, sample):,.0f} calls a second."
    return Statement(
        claim, "tool", {"calls": calls}, (made,), None if sample.round else REPORT_LESS
    )


OWN_COST = Rule(
    name="own_cost",
    of_sleepers=False,
    least_share=OWN_COST_SHARE,
    lost_ns=_tool_ns,
    say=_say_cost,
    measures="Time in kernel-delay's own program that reports calls and takes their stacks.",
    limits="Does not include its programs' cost without events, about 0.1 µs per call.",
)
