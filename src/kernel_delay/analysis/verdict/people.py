"""Rules on what somebody did on purpose: signals, debuggers, freezers."""

from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, name
from kernel_delay.model import Sample, Thread

# In service nothing stops a process: where it is seen at all, it is meant.
SEEN_SHARE = 0.01


def _stopped_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.stopped_ns if thread.time else 0


def _say_stopped(case: Case) -> Statement:
    text = f"{name(case.sample, case.thread)} was stopped for {case.of_window}"
    text += also(case.sample, case.others)
    tracer = case.sample.surroundings.tracer if case.sample.surroundings else None
    if tracer is not None:
        return Statement(
            f"{text}, while {tracer[0]} ({tracer[1]}) traced it",
            "person",
            evidence={"tracer_pid": tracer[1]},
            advice=f"end {tracer[0]} if it is not needed",
        )
    stopper = case.sample.surroundings.stopper if case.sample.surroundings else None
    if stopper is None:
        by = "a signal (as SIGSTOP or SIGTTIN) or by a tracer that has gone"
        return Statement(f"{text}, by {by}", "person")
    signal = _SIGNALS.get(stopper.signal, f"signal {stopper.signal}")
    if stopper.comm is not None:
        by = f"the signal {signal}, which {stopper.comm} ({stopper.pid}) sent"
    elif stopper.pid:
        by = f"the signal {signal} of process {stopper.pid}, which is gone"
    else:
        by = f"the signal {signal}"
    return Statement(
        f"{text}, by {by}",
        "person",
        evidence={"signal": stopper.signal, "sender_pid": stopper.pid},
        advice="kill -CONT has it go on, if it still is",
    )


# include/uapi/asm-generic/signal.h, as on x86 and arm64
_SIGNALS = {19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU"}


STOPPED = Rule(
    name="stopped",
    least_share=SEEN_SHARE,
    lost_ns=_stopped_ns,
    say=_say_stopped,
    looks_at="the time in the kernel's stopped and traced states, TracerPid, and the last signal"
    " that stopped it while it was measured, with its sender",
    silent_on="which signal it was, and who sent it, where that was before",
)


def _frozen_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.frozen_ns if thread.time else 0


def _say_frozen(case: Case) -> Statement:
    text = f"{name(case.sample, case.thread)} was frozen by its cgroup's freezer for"
    text += f" {case.of_window}{also(case.sample, case.others)}"
    cgroup = case.sample.surroundings.cgroup if case.sample.surroundings else None
    if cgroup is not None and cgroup.frozen:
        return Statement(f"{text}; {cgroup.path} still is", "person", advice="thaw it")
    return Statement(text, "person")


FROZEN = Rule(
    name="frozen",
    least_share=SEEN_SHARE,
    lost_ns=_frozen_ns,
    say=_say_frozen,
    looks_at="the time in the kernel's frozen state (cgroup v1's freezer, v2's cgroup.freeze)",
    silent_on="threads that slept already when they were frozen, and would have slept on",
)
