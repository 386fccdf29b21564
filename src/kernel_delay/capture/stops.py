"""Who stopped a process: the signal, or the tracer, that the programs saw last.

The other side is note_stop() and note_stopped() of bpf/.
"""

from typing import NamedTuple

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.threads.thread_stats import text_of
from kernel_delay.host.system_state import stopper, tracer
from kernel_delay.model import Stopper, SystemState


class SignalStop(NamedTuple):
    """The signal that stopped a process last.

    Attributes:
        signal: Its number.
        sender: The PID that sent it, in the process's own PID namespace. 0: no process did.
        process: The process that it stopped.
        others_ns: When all else that stopped processes was over for sure. None: never.
        stopped_ns: When a thread stopped last for it.
        is_over: Whether a thread that was stopped went on since.
    """

    signal: int
    sender: int
    process: int
    others_ns: int | None
    stopped_ns: int
    is_over: bool

    def can_have_stopped(self, start_ns: int) -> bool:
        """Return whether it stopped a thread at or after that time, or still did at that time."""
        return self.stopped_ns >= start_ns or not self.is_over


class TracerStop(NamedTuple):
    """The last stop of a thread by its tracer: when, who traced it, and the thread's process."""

    stopped_ns: int
    comm: str
    pid: int
    process: int


def signal_stop(programs: Programs) -> SignalStop | None:
    """Return the signal that stopped a process last; None: there was none yet."""
    control = programs.control
    if not control.stop_signal:
        return None
    return SignalStop(
        signal=int(control.stop_signal),
        sender=int(control.stop_sender),
        process=int(control.stop_process),
        others_ns=None if control.tracer_stop_ns else int(control.other_stops_ns),
        stopped_ns=int(control.signal_stop_ns),
        is_over=int(control.stop_end_ns) >= int(control.signal_stop_ns),
    )


def tracer_stop(programs: Programs) -> TracerStop | None:
    """Return the last stop by a tracer; None: there was none yet."""
    control = programs.control
    if not control.tracer_stop_ns:
        return None
    return TracerStop(
        stopped_ns=int(control.tracer_stop_ns),
        comm=text_of(control.tracer_comm),
        pid=int(control.tracer),
        process=int(control.traced),
    )


def state_of_round(
    programs: Programs, pid: int, tid: int, start_ns: int, stop_ns: int
) -> SystemState:
    """Return who stopped thread `tid` of process `pid` in its round [start_ns, stop_ns)."""
    by_signal = signal_stop(programs)
    by_tracer = tracer_stop(programs)
    traces_now = tracer(pid, (pid, tid))
    if by_signal is not None and not by_signal.can_have_stopped(start_ns):
        by_signal = None
    # One that was delivered before the programs were attached has no number.
    is_signalled = by_signal is not None or programs.control.signal_stop_ns >= start_ns
    if by_tracer is not None and start_ns <= by_tracer.stopped_ns < stop_ns:
        return SystemState(
            tracer=(by_tracer.comm, by_tracer.pid),
            stopper=_stopper_of_round(by_signal, pid, start_ns, stop_ns),
            tracer_stopped=not is_signalled,
            tracer_left=traces_now is None or traces_now[1] != by_tracer.pid,
        )
    return SystemState(
        tracer=traces_now, stopper=_stopper_of_round(by_signal, pid, start_ns, stop_ns)
    )


def _stopper_of_round(
    stop: SignalStop | None, pid: int, start_ns: int, stop_ns: int
) -> Stopper | None:
    # Another has stopped it since the round: the one before is not known any more.
    if stop is None or (stop.others_ns is not None and stop.others_ns >= stop_ns):
        return None
    alone = stop.others_ns is not None and stop.others_ns < start_ns
    return stopper(pid, stop.signal, stop.sender, alone=alone)


def stopper_in_window(
    programs: Programs, pid: int, start_ns: int, *, are_several: bool
) -> Stopper | None:
    """Return the signal that stopped process `pid` in a window from that time on.

    With `are_several` the programs watch other processes too.
    """
    stop = signal_stop(programs)
    if stop is None or not stop.can_have_stopped(start_ns):
        return None
    if are_several and stop.process != pid:
        return None
    # Of several it is not known which of them others stopped.
    alone = not are_several and stop.others_ns is not None and stop.others_ns < start_ns
    return stopper(pid, stop.signal, stop.sender, alone=alone)


def tracer_in_window(programs: Programs, pid: int, start_ns: int) -> tuple[str, int] | None:
    """Return who stopped process `pid` last as its tracer, from that time on: name and PID."""
    stop = tracer_stop(programs)
    if stop is None or stop.process != pid or stop.stopped_ns < start_ns:
        return None
    return stop.comm, stop.pid
