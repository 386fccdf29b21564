"""Rules on what a person does on purpose: signals, debuggers, freezers."""

import shlex
from collections.abc import Iterable

from kernel_delay.analysis.verdict.formatting import name
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.host.kernel_names import signal_name
from kernel_delay.model import Sample, Stopper, Thread

# In service nothing stops a process: any stop is intended.
SEEN_SHARE = 0.01


def _stopped_ns(sample: Sample, thread: Thread) -> int:
    return thread.time.stopped_ns if thread.time else 0


def _say_stopped(case: Case) -> Statement:
    claim = f"{name(case.sample, case.thread)} was stopped"
    around = case.sample.system_state
    tracer = around.tracer if around else None
    stopper = around.stopper if around else None
    if around is not None and tracer is not None and around.tracer_stopped:
        return _of_tracer(claim, tracer, has_left=around.tracer_left)
    traced = () if tracer is None else (f"Meanwhile {tracer[0]} ({tracer[1]}) traced it.",)
    resumes = resume(case.sample.target.pid, is_sent=stopper is not None)
    if stopper is not None:
        is_sure = stopper.alone and tracer is None
        return _of_signal(claim, traced, stopper, is_sure, resumes)
    if tracer is None:
        unknown = "A signal (as SIGSTOP or SIGTTIN) stopped it, or a tracer that was not seen."
        return Statement(claim, "person", details=(unknown,), advice=resumes)
    evidence = {"tracer_pid": tracer[1]}
    if not stops_as_traced(case.thread):
        either = f"{tracer[0]} stopped it, or a signal did (as SIGSTOP)."
        return Statement(claim, "person", evidence, (*traced, either))
    assert around is not None
    advice = None if around.tracer_left else f"End {tracer[0]} if it is not needed."
    return Statement(claim, "person", evidence, traced, advice)


def _of_tracer(claim: str, tracer: tuple[str, int], *, has_left: bool) -> Statement:
    """No signal stopped it: SIGCONT would not resume it."""
    comm, pid = tracer
    detail = f"{comm} ({pid}), its tracer, stopped it"
    if has_left:
        detail += ", and has left it since"
    return Statement(
        claim,
        "person",
        evidence={"tracer_pid": pid},
        details=(f"{detail}.",),
        advice=None if has_left else f"To resume it, detach or end {comm}: SIGCONT does not.",
    )


def _of_signal(
    claim: str, traced: tuple[str, ...], stopper: Stopper, is_sure: bool, advice: str
) -> Statement:
    signal = signal_name(stopper.signal)
    if stopper.comm is not None:
        signal += f", which {stopper.comm} ({stopper.pid}) sent"
    elif stopper.pid:
        signal += f" of process {stopper.pid}, which is gone"
    if use := _TERMINAL_USES.get(stopper.signal):
        advice = f"It {use} a terminal in the background: fg in its shell resumes it."
    how = "It was stopped by" if is_sure else "The last signal to stop it was"
    return Statement(
        claim,
        "person",
        evidence={"signal": stopper.signal, "sender_pid": stopper.pid},
        details=(*traced, f"{how} {signal}."),
        advice=advice,
    )


def resume(pid: int, *, is_sent: bool) -> str:
    """Advise to resume a process that a signal stopped; it may have been resumed since.

    A signal that nobody is known to have sent may be the terminal's.
    """
    advice = f"kill -CONT {pid} resumes it if it is still stopped"
    if is_sent:
        return f"{advice}."
    return f"{advice}, and fg in its shell if it uses its terminal in the background."


# A tracer that follows calls stops its target so often, and shortly each time.
_OFTEN = 10
_MOST = 0.9


def stops_as_traced(thread: Thread) -> bool:
    """Whether many short stops make up the time: a signal stops a process until SIGCONT.

    Who stops it by signals many times was seen to.
    """
    stops = thread.stopped
    if stops is None or thread.time is None or stops.count < _OFTEN:
        return False
    return stops.total_ns - stops.max_ns >= _MOST * thread.time.stopped_ns


# With SIGCONT it would try that again, and be stopped again (termios(3), "tostop").
_TERMINAL_USES = {21: "reads from", 22: "writes to"}

STOPPED = Rule(
    name="stopped",
    of_sleepers=False,
    least_share=SEEN_SHARE,
    lost_ns=_stopped_ns,
    say=_say_stopped,
    measures="Time in the kernel's stopped and traced states, the stops, the tracer, and the"
    " last stop signal with its sender.",
    limits="If the process was stopped before the window, the signal and its sender are unknown.",
)


def _frozen_ns(sample: Sample, thread: Thread) -> int:
    """How long it was frozen; of a process that is frozen now, how long it may have been."""
    if thread.time is None:
        return 0
    least_ns = SEEN_SHARE * sample.window.duration_ns
    is_frozen_now = sample.round is None and _freezers(sample)
    if thread.time.frozen_ns >= least_ns or not is_frozen_now:
        return thread.time.frozen_ns
    # Before Linux 6.1 a thread that slept counts as blocked until it would have woken.
    unknown_ns = thread.time.unaccounted_ns
    return unknown_ns if unknown_ns >= least_ns else thread.time.blocked_ns


def _freezers(sample: Sample) -> tuple[str, ...]:
    return sample.system_state.freezers if sample.system_state else ()


def _say_frozen(case: Case) -> Statement:
    assert case.thread.time is not None
    freezers = _freezers(case.sample)
    is_known = case.lost_ns == case.thread.time.frozen_ns
    was = "was" if is_known else "may have been"
    claim = f"{name(case.sample, case.thread)} {was} frozen by its cgroup's freezer"
    if not freezers:
        return Statement(claim, "person")
    advice = thaw(freezers)
    if is_known:
        return Statement(claim, "person", details=("It still is frozen.",), advice=advice)
    return Statement(
        claim,
        "person",
        details=("It is frozen now, and since when is not known.",),
        advice=advice,
        explains=frozenset(("asleep", thread.tid) for thread in (case.thread, *case.others)),
    )


def thaw(freezers: Iterable[str]) -> str:
    """Advise how to thaw what these files keep frozen."""
    # No full stop: the command is copied.
    return f"Thaw it: {' && '.join(map(thawing_command, freezers))}"


def thawing_command(freezer: str) -> str:
    """Return what thaws the cgroup of a freezer.state of v1, or a cgroup.freeze of v2."""
    # A redacted one has no folder.
    word = "THAWED" if freezer.rpartition("/")[2] == "freezer.state" else "0"
    return f"echo {word} >{shlex.quote(freezer)}"


FROZEN = Rule(
    name="frozen",
    least_share=SEEN_SHARE,
    lost_ns=_frozen_ns,
    say=_say_frozen,
    measures="Time in the kernel's frozen state, of cgroup v1 or v2.",
    limits=(
        "If the process is frozen at the end and the start is unknown, the time is an upper limit."
        " That is so with cgroup v1 (Linux 6.1 on) if all threads slept in nanosleep, futex or"
        " sigtimedwait. Threads that already slept are missed if they are thawed again."
    ),
)
