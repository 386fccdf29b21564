"""Looks where the threads of processes stand, without stopping them.

The kernel's records are read, then the memory of the programs, then the records again. A thread
that has not run in between had that stack all the time; another is looked at again.
"""

import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from msgspec import Struct, structs

from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.capture.syscall_events.stacks import DWARF_REGISTERS, STACK_POINTER, stack_frame
from kernel_delay.errors import KernelDelayError, NoInputError
from kernel_delay.host.cgroups import read_hierarchy
from kernel_delay.host.file_locks import lock_owner
from kernel_delay.host.syscalls import syscall
from kernel_delay.host.system_state import tracer
from kernel_delay.host.target import PROC, ProcessTarget, command_line, living_thread
from kernel_delay.model import StackFrame
from kernel_delay.symbols import (
    AddressSpaceApart,
    KernelSymbols,
    ProcessImage,
    Stack,
    start_parsers,
)
from kernel_delay.symbols.demangle import Demangler
from kernel_delay.symbols.memory import ProcessMemory
from kernel_delay.symbols.python import PythonStack
from kernel_delay.symbols.python.threads import ThreadPointers
from kernel_delay.where import (
    Holder,
    ProcessPosition,
    Relation,
    State,
    ThreadPosition,
    UserFrame,
    Where,
)
from kernel_delay.where.calls import Call, Calls, Waited, arguments_of, awaited_futex
from kernel_delay.where.files import Files, Links
from kernel_delay.where.python_frames import GilWait, PythonThreads, gil_wait, joined
from kernel_delay.where.standing import KernelLock, Standing, StandingThread

# include/linux/sched.h, the same from 5.14 to 6.18.
TASK_RUNNING = 0
TASK_UNINTERRUPTIBLE = 2
TASK_STOPPED = 4
TASK_TRACED = 8
TASK_DEAD = 0x80

# include/linux/sched/jobctl.h, the same: the signal of the last stop.
JOBCTL_STOP_SIGMASK = 0xFFFF


def state_of(thread: StandingThread) -> State:
    """Return a thread's state."""
    task_state = thread.task_state
    if task_state & TASK_DEAD:
        return "exited"
    # One that is about to sleep is still on its CPU.
    if thread.on_cpu:
        return "running"
    if thread.is_frozen:
        return "frozen"
    if task_state & TASK_TRACED:
        return "traced"
    if task_state & TASK_STOPPED:
        return "stopped"
    if task_state == TASK_RUNNING:
        return "throttled" if thread.is_throttled else "runnable"
    return "uninterruptible" if task_state & TASK_UNINTERRUPTIBLE else "sleeping"


def at_least_ns(thread: StandingThread, state: State) -> int | None:
    """Return how long it has been so, at least; None if that is not known."""
    if state in ("running", "exited"):
        return None
    return thread.queued_ns if state == "runnable" else thread.off_cpu_ns


def stop_signal(thread: StandingThread) -> str | None:
    """Return the name of the signal that stopped it; None if that is not known."""
    number = thread.jobctl & JOBCTL_STOP_SIGMASK
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def deadlocks(threads: Iterable[ThreadPosition]) -> tuple[tuple[int, ...], ...]:
    """Return the circles of threads of which each waits for a lock that the next one owns."""
    owners = {
        thread.tid: holder.tid
        for thread in threads
        for holder in thread.holders
        if holder.relation == "owner"
    }
    order = {tid: at for at, tid in enumerate(owners)}
    found: list[tuple[int, ...]] = []
    passed_from: dict[int, int] = {}
    for first in owners:
        passed: list[int] = []
        tid = first
        while tid in owners and tid not in passed_from:
            passed_from[tid] = first
            passed.append(tid)
            tid = owners[tid]
        if passed_from.get(tid) == first:
            circle = passed[passed.index(tid) :]
            start = circle.index(min(circle, key=order.__getitem__))
            found.append((*circle[start:], *circle[:start]))
    return tuple(sorted(found, key=lambda circle: order[circle[0]]))


# How often a thread is looked at that ran meanwhile.
MOST_LOOKS = 5

# Of a user stack: most are shallow.
SHALLOW_STACK = 16384
DEEP_STACK = 1 << 20

MOST_COMMAND_LINE_BYTES = 256

NO_REGISTERS = "this kernel does not give programs' registers: user stacks take Linux 5.15 or newer"
LOCKED = (
    "user stacks and objects are not read: a thread holds or awaits the lock of the process's"
    " address space, and reading would wait for it too"
)
MOVED = "the thread ran again each time its user stack was read"

OwnNames = Mapping[int, tuple[int, str]]
"""The threads of a process by their own ids: their ids here, and their names."""


class _Looked(Struct, frozen=True):
    """What was seen of a thread: the kernel's record, and what was read of its program."""

    thread: StandingThread
    waited: Waited = Waited()
    stack: Stack | None = None
    python: PythonStack | None = None
    remark: str | None = None
    gil: GilWait | None = None


def look(
    targets: Sequence[ProcessTarget],
    *,
    source: bool = False,
    on_attached: Callable[[], None] = lambda: None,
) -> Where:
    """Return where the threads of these processes stand.

    With `source` user stacks have inlined functions and source lines, where those are known.
    `on_attached` is called when the programs are loaded, and before anything of the processes is
    read. Raises NoInputError where they have all exited, PermissionDeniedError where one may not be
    looked at, and what Standing() raises.
    """
    links = Links()
    start_parsers()
    with ExitStack() as stack:
        standing = stack.enter_context(Standing([target.pid for target in targets]))
        on_attached()
        before = standing.threads()
        locked = {thread.process for thread in before if thread.blocks_readers}
        lookers = {
            target.pid: stack.enter_context(
                _Process(target, links, reads=target.pid not in locked, source=source)
            )
            for target in targets
        }
        found = _look_until_still(standing, lookers)
        processes = tuple(
            looker.position(found[pid]) for pid, looker in lookers.items() if found[pid]
        )
    if not processes:
        raise NoInputError("the processes have exited: nothing to look at")
    return Where(processes, deadlocks(each for process in processes for each in process.threads))


def _look_until_still(
    standing: Standing, lookers: Mapping[int, "_Process"]
) -> dict[int, list[_Looked]]:
    """The threads of each process; those that run again each time without a user stack."""
    found: dict[int, _Looked] = {}
    looked: dict[int, _Looked] = {}
    before = standing.threads()
    for _ in range(MOST_LOOKS):
        for pid, looker in lookers.items():
            looker.note([thread for thread in before if thread.process == pid])
        names = _own_names(before)
        looked = {
            thread.tid: lookers[thread.process].look(thread, names[thread.process])
            for thread in before
            if thread.tid not in found and thread.process in lookers
        }
        after = standing.threads()
        for thread in after:
            seen = looked.get(thread.tid)
            if seen is not None and thread.switches == seen.thread.switches:
                found[thread.tid] = seen
        before = after
        if all(thread.tid in found for thread in after):
            break
    processes: dict[int, list[_Looked]] = defaultdict(list)
    names = _own_names(before)
    for thread in before:
        seen = found.get(thread.tid)
        if seen is None:
            python = looked[thread.tid].python if thread.tid in looked else None
            gil = None
            if not thread.on_cpu and thread.process in lookers:
                gil = lookers[thread.process].still_waits_for_gil(thread, names[thread.process])
            remark = None if thread.on_cpu else MOVED
            seen = _Looked(thread, python=python, remark=remark, gil=gil)
        if seen.gil is not None:
            waited = lookers[thread.process].waited_for_gil(seen.gil)
            seen = structs.replace(seen, waited=waited)
        processes[thread.process].append(seen)
    return processes


def _own_names(threads: Iterable[StandingThread]) -> dict[int, dict[int, tuple[int, str]]]:
    names: dict[int, dict[int, tuple[int, str]]] = defaultdict(dict)
    for thread in threads:
        names[thread.process][thread.own_tid] = thread.tid, thread.comm
    return names


class _Process:
    """One process: its code, memory and descriptors."""

    def __init__(self, target: ProcessTarget, links: Links, *, reads: bool, source: bool) -> None:
        """Open them, if the process is one whose memory is read."""
        self._target = target
        self._kernel = KernelSymbols()
        self._demangler = Demangler()
        self._remarks: dict[str, None] = {}
        self._space: AddressSpaceApart | None = None
        if self._kernel.reason is not None:
            self._remarks[self._kernel.reason] = None
        with ExitStack() as failing:
            directory = PROC / str(living_thread(target.pid) or target.pid)
            self._files = Files(directory, links)
            if reads:
                self._image = failing.enter_context(ProcessImage(target.pid))
                self._memory = ProcessMemory(directory, self._image.bounds)
                failing.callback(self._memory.close)
                self._space = AddressSpaceApart(self._image, source)
                failing.callback(self._space.close)
                self._space.note()
                self._python = PythonThreads(self._image, self._memory)
            else:
                self._remarks[LOCKED] = None
            self._closing = failing.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing.close()

    def note(self, threads: Iterable[StandingThread]) -> None:
        """Note which of the threads run Python, before they are looked at."""
        if self._space is not None:
            self._python.note(_thread_pointers(threads))

    def look(self, thread: StandingThread, names: OwnNames) -> _Looked:
        """Read what the thread's program has; quickly, as it may run again."""
        if thread.is_kernel_worker or self._space is None:
            return _Looked(thread)
        python = self._python.stack(thread.own_tid)
        if thread.on_cpu:
            return _Looked(thread, python=python)
        if thread.registers is None:
            self._remarks[NO_REGISTERS] = None
            return _Looked(thread, python=python)
        try:
            stack = self._unwound(self._space, thread.registers)
        except KernelDelayError as error:
            self._remarks[str(error)] = None
            stack = None
        call = _call(thread, thread.registers)
        if call is None:
            return _Looked(thread, stack=stack, python=python)
        gil = self._gil_wait(thread, call, names)
        if gil is not None:
            return _Looked(thread, stack=stack, python=python, gil=gil)
        calls = Calls(self._target.pid, self._files, self._memory.read, names)
        return _Looked(thread, calls.waited(call), stack, python)

    def still_waits_for_gil(self, thread: StandingThread, names: OwnNames) -> GilWait | None:
        """Look once more at a thread that ran again each time, as who waits for the GIL does.

        Such a thread wakes up every 5 ms (sys.getswitchinterval()), and waits again. The holder
        is the one that was found before the kernel's record was read, and is still the same.
        """
        call = None if thread.registers is None else _call(thread, thread.registers)
        if call is None or self._space is None:
            return None
        return self._gil_wait(thread, call, names, since_before=True)

    def waited_for_gil(self, wait: GilWait) -> Waited:
        """What a thread waits for, when all threads have been looked at.

        Threads are not looked at at once: an owner that had the lock for a moment could seem to
        be part of a deadlock.
        """
        return wait.waited(is_still_held=self._python.is_still_held(wait.holder))

    def _gil_wait(
        self, thread: StandingThread, call: Call, names: OwnNames, *, since_before: bool = False
    ) -> GilWait | None:
        futex = awaited_futex(call)
        # One that was woken waits for the CPU, no longer for the futex.
        if futex is None or thread.task_state == TASK_RUNNING:
            return None
        holder = self._python.gil_holder(futex, since_before=since_before)
        return None if holder is None else gil_wait(holder, thread.own_tid, names)

    def _unwound(self, space: AddressSpaceApart, registers: tuple[int, ...]) -> Stack:
        machine = space.machine
        in_order = tuple(registers[place] for place in DWARF_REGISTERS[machine])
        sp = in_order[STACK_POINTER[machine]]
        (stack,) = space.unwind([(in_order, self._memory.read(sp, SHALLOW_STACK), sp, 0)])
        if stack.end == "short":
            (stack,) = space.unwind([(in_order, self._memory.read(sp, DEEP_STACK), sp, 0)])
        return stack

    def position(self, looked: Sequence[_Looked]) -> ProcessPosition:
        """The process, with what was seen of its threads by names."""
        pid = self._target.pid
        threads = tuple(map(self._thread, looked))
        states = {thread.state for thread in threads}
        hierarchy = read_hierarchy(pid) if states & {"frozen", "throttled"} else None
        limits = hierarchy.levels if hierarchy and "throttled" in states else ()
        if self._space is not None:
            self._remarks |= dict.fromkeys(self._image.bounds.take_remarks())
            self._remarks |= dict.fromkeys(self._python.remarks())
        return ProcessPosition(
            pid=pid,
            comm=self._target.comm,
            # That is in its memory too.
            command_line=command_line(pid, MOST_COMMAND_LINE_BYTES) if self._space else (),
            threads=threads,
            freezers=hierarchy.freezers if hierarchy and "frozen" in states else (),
            throttling=tuple(each.path for each in limits if each.quota_ns is not None),
            remarks=tuple(self._remarks),
        )

    def _thread(self, looked: _Looked) -> ThreadPosition:
        thread, waited, stack = looked.thread, looked.waited, looked.stack
        state = state_of(thread)
        frames = self._kernel.frames(_return_addresses(thread.kernel))
        reason = None
        if state in ("sleeping", "uninterruptible"):
            reason = sleep_reason([frame.name for frame in frames if frame.name])
        if reason == "file_lock":
            waited = self._file_lock(waited)
        user, missing = self._user(looked)
        return ThreadPosition(
            tid=thread.tid,
            name=thread.comm,
            state=state,
            at_least_ns=at_least_ns(thread, state),
            cpu=thread.cpu,
            syscall=None if thread.syscall is None else _call_name(thread),
            waits_for=waited.words,
            reason=reason,
            holders=(*_tracer(thread, state), *_lock_holder(thread.lock), *waited.holders),
            stopped_by=stop_signal(thread) if state == "stopped" else None,
            kernel=tuple(map(stack_frame, frames)),
            user=user,
            user_end=None if stack is None else stack.end,
            remark="; ".join(filter(None, (looked.remark, missing))) or None,
        )

    def _user(self, looked: _Looked) -> tuple[tuple[UserFrame, ...], str | None]:
        """The user stack with its Python frames, and what is missing of them."""
        stack = looked.stack
        if stack is None or self._space is None:
            return joined((), None, looked.python)
        return joined(self._named(self._space, stack), stack.end, looked.python)

    def _file_lock(self, waited: Waited) -> Waited:
        owner = lock_owner(self._target.pid)
        if owner is None:
            return waited
        return Waited(waited.words, (*waited.holders, Holder("owner", owner.pid, owner.comm)))

    def _named(self, space: AddressSpaceApart, stack: Stack) -> tuple[StackFrame, ...]:
        """A stack's frames, with names as programmers write them."""
        frames = tuple(map(stack_frame, *space.frames([stack])))
        plain = self._demangler.names({frame.name for frame in frames if frame.name})
        return tuple(
            structs.replace(frame, name=plain.get(frame.name or "", frame.name)) for frame in frames
        )


def _thread_pointers(threads: Iterable[StandingThread]) -> ThreadPointers:
    own_tids: dict[int, int] = {}
    leader = 0
    for thread in threads:
        if thread.thread_pointer:
            own_tids[thread.thread_pointer] = thread.own_tid
        if thread.tid == thread.process:
            leader = thread.thread_pointer
    return ThreadPointers(own_tids, leader)


def _call(thread: StandingThread, registers: tuple[int, ...]) -> Call | None:
    if thread.syscall is None:
        return None
    return Call(_call_name(thread), arguments_of(registers, thread.compat), thread.compat)


def _call_name(thread: StandingThread) -> str:
    number = thread.syscall or 0
    return syscall(number, thread.compat).name or f"system call {number}"


def _tracer(thread: StandingThread, state: State) -> tuple[Holder, ...]:
    found = tracer(thread.process, [thread.tid]) if state == "traced" else None
    if found is None:
        return ()
    comm, pid = found
    return (Holder("tracer", pid, comm),)


def _lock_holder(lock: KernelLock | None) -> tuple[Holder, ...]:
    if lock is None or not lock.holder:
        return ()
    relation: Relation = "reader" if lock.kind == "readers" else "owner"
    return (Holder(relation, lock.holder, lock.comm),)


def _return_addresses(addresses: tuple[int, ...]) -> Stack:
    return Stack(addresses, (False,) * len(addresses), "whole")
