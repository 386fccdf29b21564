"""Which figures of a comparison are better if they are less: those of time that a thread lost."""

from kernel_delay.analysis.figures import HOLDS, ROOT
from kernel_delay.host.kernel_names import FUTEXES, POLLS, RESTARTS, RING_ENTRY

_LOST = ("irq", "ready", *HOLDS)

# These may wait for work: how long they take depends on whoever gives it.
_MAY_WAIT_FOR_WORK = frozenset(
    {
        *(*POLLS, *FUTEXES, *RESTARTS, RING_ENTRY),
        *("futex_wait", "futex_waitv", "io_getevents", "io_pgetevents"),
        *("nanosleep", "clock_nanosleep", "clock_nanosleep_time64", "pause"),
        *("rt_sigsuspend", "rt_sigtimedwait", "rt_sigtimedwait_time64"),
        *("wait4", "waitid", "waitpid", "semop", "semtimedop", "msgrcv", "mq_timedreceive"),
        *("accept", "accept4", "read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg"),
    }
)


def less_is_better(name: str, *, of_rounds: bool) -> bool:
    """Whether a figure is better if it is less; of all others neither direction is better.

    Args:
        name: The figure, as figures.py has it, or round_figures.py.
        of_rounds: Whether it is of long rounds: whatever takes time there makes them longer. Their
            shares depend on each other, so that none of them is better.

    Rates and counts are of how much work there is. A thread that is blocked may have none.
    """
    part, _, what = name.rpartition(".")
    if of_rounds:
        return what in ("round", "mean")
    if name.startswith(ROOT):
        return what in HOLDS
    if what in ("mean", "p99"):
        # How long a call takes whose name is not known has no meaning either.
        return part not in _MAY_WAIT_FOR_WORK and not part.startswith("syscall ")
    return name in _LOST
