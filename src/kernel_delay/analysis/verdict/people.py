"""Rules on what somebody did on purpose: signals, debuggers, freezers."""

from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.words import also, name
from kernel_delay.model import Sample, Stopper, Thread

# In service nothing stops a process: where it is seen at all, it is meant.
SEEN_SHARE = 0.01


def _stopped_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.stopped_ns if thread.time else 0


def _say_stopped(case: Case) -> Statement:
    text = f"{name(case.sample, case.thread)} was stopped for {case.of_window}"
    text += also(case.sample, case.others)
    tracer = case.sample.surroundings.tracer if case.sample.surroundings else None
    stopper = case.sample.surroundings.stopper if case.sample.surroundings else None
    if tracer is not None:
        text += f", while {tracer[0]} ({tracer[1]}) traced it"
    if stopper is not None:
        is_sure = stopper.alone and tracer is None
        how = ", by the signal" if is_sure else "; the last signal to stop it was"
        return _of_signal(f"{text}{how} ", stopper)
    if tracer is None:
        text += ", by a signal (as SIGSTOP or SIGTTIN) or by a tracer that was not seen"
        return Statement(text, "person")
    evidence = {"tracer_pid": tracer[1]}
    if not _stops_as_traced(case.thread):
        return Statement(f"{text}: by that, or by a signal (as SIGSTOP)", "person", evidence)
    return Statement(text, "person", evidence, f"end {tracer[0]} if it is not needed")


def _of_signal(text: str, stopper: Stopper) -> Statement:
    text += _SIGNALS.get(stopper.signal, str(stopper.signal))
    if stopper.comm is not None:
        text += f", which {stopper.comm} ({stopper.pid}) sent"
    elif stopper.pid:
        text += f" of process {stopper.pid}, which is gone"
    return Statement(
        text,
        "person",
        evidence={"signal": stopper.signal, "sender_pid": stopper.pid},
        advice="kill -CONT has it go on, if it still is",
    )


# A tracer that follows calls stops its target so often, and shortly each time.
_OFTEN = 10
_MOST = 0.9


def _stops_as_traced(thread: Thread) -> bool:
    """Whether many short stops make up the time: by a signal a process is stopped until told.

    Who stops it by signals many times was seen to.
    """
    stops = thread.stopped
    if stops is None or thread.time is None or stops.count < _OFTEN:
        return False
    return stops.total_ns - stops.max_ns >= _MOST * thread.time.stopped_ns


# include/uapi/asm-generic/signal.h, as on x86 and arm64
_SIGNALS = {19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU"}


STOPPED = Rule(
    name="stopped",
    least_share=SEEN_SHARE,
    lost_ns=_stopped_ns,
    say=_say_stopped,
    looks_at="the time in the kernel's stopped and traced states, how often and how long each time,"
    " TracerPid, and the last signal that stopped it while it was measured, with its sender",
    silent_on="which signal it was, and who sent it, where that was before; how long each of"
    " several stops was",
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
