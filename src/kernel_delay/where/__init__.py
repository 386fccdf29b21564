"""Where threads stand now: what is found, which the others here find."""

from typing import Literal

from msgspec import Struct

from kernel_delay.model import SleepReason, StackFrame

State = Literal[
    "running",
    "runnable",
    "throttled",
    "sleeping",
    "uninterruptible",
    "stopped",
    "traced",
    "frozen",
    "exited",
]

Relation = Literal["owner", "reader", "tracer", "peer", "child"]

Held = Literal["stopped", "traced", "frozen"]

OR_A_TIMEOUT = "or a time-out"
"""So much of the words of a wait is the same, whatever the time."""


class Holder(Struct, frozen=True):
    """Who has what a thread waits for, or keeps it from running.

    Attributes:
        relation: "owner": of a lock. "reader": the last that took a lock that readers share.
            "tracer": it stopped the thread. "peer": at the other end of a
            pipe or connection. "child": a process or thread whose end is waited for.
        tid: The thread; of a process the PID.
        name: Its name.
        held: What keeps it from running until a person lets it go on. None: nothing, or not known.
    """

    relation: Relation
    tid: int
    name: str
    held: Held | None = None


class UserFrame(StackFrame, frozen=True, gc=False):
    """One function on a user stack.

    A Python function has the name that its code has, as `object` the file of the code, and as
    `source` the line that runs now. Its address is that of the interpreter's frame that runs it;
    0: not known.

    Attributes:
        language: "python": a function of Python. None: any other function.
    """

    language: Literal["python"] | None = None


class ThreadPosition(Struct, frozen=True):
    """Where one thread stands.

    Attributes:
        tid: The thread ID.
        name: The name of the thread.
        state: Its state. "running": on a CPU; such a thread has no stacks but
            its Python frames.
        at_least_ns: How long it has been off its CPU, or has waited for one, at least. None: not
            known.
        cpu: The CPU that it is on, or was on last.
        syscall: The system call that it is in. None: in none, or not known.
        waits_for: The object that the call waits for, in words. None: not known, or nothing.
        timeout_ns: The call ends by itself after this time. None: it does not, or not known.
        reason: What it sleeps for, by its kernel stack. None: it does not sleep.
        holders: Who has what it waits for.
        kernel_lock: The kernel's name for the lock of its own that the thread waits for, as
            rtnl_mutex. None: none, not known, or the lock has no name of its own, as a file's.
        stopped_by: The signal that stopped it. None: none, or not known.
        kernel: The kernel stack, the innermost function first.
        user: The user stack, the innermost function first; Python frames in the place of the
            interpreter's.
        user_end: Why the user stack ends: "whole", "short" or "lost". None: there is none.
        remark: What is missing, and why. None: nothing.
    """

    tid: int
    name: str
    state: State
    at_least_ns: int | None
    cpu: int
    syscall: str | None = None
    waits_for: str | None = None
    timeout_ns: int | None = None
    reason: SleepReason | None = None
    holders: tuple[Holder, ...] = ()
    kernel_lock: str | None = None
    stopped_by: str | None = None
    kernel: tuple[StackFrame, ...] = ()
    user: tuple[UserFrame, ...] = ()
    user_end: str | None = None
    remark: str | None = None

    @property
    def owners(self) -> tuple[Holder, ...]:
        """Who has the lock that it waits for: several have one of a file that they share."""
        return tuple(holder for holder in self.holders if holder.relation == "owner")

    @property
    def awaited_thread(self) -> Holder | None:
        """Who alone has the lock that it waits for, or the thread whose end it waits for.

        Nobody where it waits for some time at most. What is of a process may be ended by any of its
        threads: a file lock, and the process itself.
        """
        found = [
            holder
            for holder in self.holders
            if (holder.relation == "owner" and self.reason != "file_lock")
            or (holder.relation == "child" and self.reason == "futex")
        ]
        return found[0] if len(found) == 1 and self.timeout_ns is None else None


class ProcessPosition(Struct, frozen=True):
    """Where the threads of one process stand.

    Attributes:
        pid: The process ID.
        comm: The name of the process.
        command_line: Its arguments, or the title that it gave itself.
        threads: Its threads.
        freezers: The files that keep it frozen.
        throttling: The cgroups with a quota of CPU time, from its own up.
        remarks: What is missing of all threads, and why.
    """

    pid: int
    comm: str
    command_line: tuple[str, ...]
    threads: tuple[ThreadPosition, ...]
    freezers: tuple[str, ...] = ()
    throttling: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class Where(Struct, frozen=True):
    """Where the threads of all processes that were asked for stand.

    Attributes:
        processes: The processes.
        deadlocks: Threads that wait for each other in a circle: each one's TID, then whom it waits
            for.
    """

    processes: tuple[ProcessPosition, ...]
    deadlocks: tuple[tuple[int, ...], ...] = ()
