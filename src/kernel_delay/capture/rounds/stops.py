"""Who stopped a thread in its round."""

from kernel_delay.capture.programs import Programs
from kernel_delay.host.system_state import stopper, tracer
from kernel_delay.model import Stopper, SystemState, Thread


def system_state_of_round(
    programs: Programs, pid: int, thread: Thread, start_ns: int, stop_ns: int
) -> SystemState | None:
    """Return who traces a thread of process `pid` that was stopped, and who sent the signal.

    None of a thread that was not stopped in its round [start_ns, stop_ns).
    """
    if thread.time is None or not thread.time.stopped_ns:
        return None
    return SystemState(
        tracer=tracer(pid, (pid, thread.tid)), stopper=_stopper(programs, pid, start_ns, stop_ns)
    )


def _stopper(programs: Programs, pid: int, start_ns: int, stop_ns: int) -> Stopper | None:
    reported = programs.stop_signal()
    if reported is None:
        return None
    signal, sender, _, others_ns = reported
    # Another has stopped it since the round: the one before is not known any more.
    if others_ns is not None and others_ns >= stop_ns:
        return None
    alone = others_ns is not None and others_ns < start_ns
    return stopper(pid, signal, sender, alone=alone)
