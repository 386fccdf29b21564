"""One process that is looked at: the code, memory and files of its threads."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Self

from msgspec import Struct, structs

from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.capture.syscall_events.stacks import DWARF_REGISTERS, STACK_POINTER, stack_frame
from kernel_delay.errors import KernelDelayError, NoInputError
from kernel_delay.host.cgroups import read_freezers, read_hierarchy
from kernel_delay.host.file_locks import lock_owners
from kernel_delay.host.kernel_names import RESTARTS
from kernel_delay.host.preflight import monotonic_offset_ns
from kernel_delay.host.syscalls import syscall
from kernel_delay.host.system_state import tracer
from kernel_delay.host.target import PROC, ProcessTarget, command_line, living_thread, read_stat
from kernel_delay.model import StackFrame
from kernel_delay.symbols import AddressSpaceApart, KernelSymbols, ProcessImage, Stack
from kernel_delay.symbols.demangle import Demangler
from kernel_delay.symbols.memory import ProcessMemory
from kernel_delay.symbols.python import PythonStack
from kernel_delay.symbols.python.threads import ThreadPointers
from kernel_delay.where import (
    Held,
    Holder,
    ProcessPosition,
    Relation,
    State,
    ThreadPosition,
    UserFrame,
)
from kernel_delay.where.calls import (
    Call,
    Calls,
    Waited,
    arguments_of,
    awaited_futex,
    restarted_call,
    with_files,
)
from kernel_delay.where.files import MOST_NAMED, Descriptor, Files, Found
from kernel_delay.where.python_frames import GilWait, PythonThreads, gil_wait, joined
from kernel_delay.where.standing import (
    TASK_DEAD,
    TASK_RUNNING,
    KernelLock,
    StandingThread,
    at_least_ns,
    state_of,
    stop_signal,
)

# Of a user stack: most are shallow.
SHALLOW_STACK = 16384
DEEP_STACK = 1 << 20

MOST_COMMAND_LINE_BYTES = 256

NO_REGISTERS = "this kernel does not give programs' registers: user stacks take Linux 5.15 or newer"
LOCKED = (
    "user stacks and objects are not read: a thread holds or awaits the lock of the process's"
    " address space, and reading would wait for it too"
)

# As in /proc/PID/stat.
_STOPPED: Mapping[str, Held] = {"T": "stopped", "t": "traced"}

OwnNames = Mapping[int, tuple[int, str]]
"""The threads of a process by their own ids: their ids here, and their names."""


class Looked(Struct, frozen=True):
    """What was seen of a thread: the kernel's record, and what was read of its program."""

    thread: StandingThread
    waited: Waited = Waited()
    stack: Stack | None = None
    python: PythonStack | None = None
    remark: str | None = None
    gil: GilWait | None = None


class Process:
    """One process: its code, memory and descriptors."""

    def __init__(self, target: ProcessTarget, *, reads: bool, source: bool) -> None:
        """Open them, if the process is one whose memory is read.

        Raises NoInputError when it has exited, PermissionDeniedError when it may not be looked at.
        """
        self._target = target
        self._kernel = KernelSymbols()
        self._demangler = Demangler()
        self._remarks: dict[str, None] = {}
        self._held: dict[int, Held | None] = {}
        self._pointers: dict[int, int] = {}
        # The tool's clock is the kernel's: preflight.check().
        self._ahead_ns = monotonic_offset_ns(PROC / str(target.pid))
        self._space: AddressSpaceApart | None = None
        if self._kernel.reason is not None:
            self._remarks[self._kernel.reason] = None
        with ExitStack() as failing:
            living = living_thread(target.pid) or target.pid
            directory = PROC / str(living)
            self._files = Files(target.pid, living)
            if reads:
                self._image = failing.enter_context(ProcessImage(target.pid))
                try:
                    self._memory = ProcessMemory(directory, self._image.bounds)
                except (FileNotFoundError, ProcessLookupError):
                    raise NoInputError(f"process {target.pid} has exited") from None
                failing.callback(self._memory.close)
                self._space = AddressSpaceApart(self._image, source)
                failing.callback(self._space.close)
                self._space.note()
                self._python = PythonThreads(self._image, self._memory)
            else:
                self._remarks[LOCKED] = None
            self._closing = failing.pop_all()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close them."""
        self._closing.close()

    def note(self, threads: Iterable[StandingThread]) -> None:
        """Note which of the threads run Python, before they are looked at."""
        threads = tuple(threads)
        self._pointers = {each.own_tid: each.thread_pointer for each in threads}
        if self._space is not None:
            self._python.note(_thread_pointers(threads))

    def look(self, thread: StandingThread, names: OwnNames) -> Looked:
        """Read what the thread's program has; quickly, as it may run again."""
        if thread.is_kernel_worker or self._space is None:
            return Looked(thread)
        python = self._python.stack(thread.own_tid)
        if thread.on_cpu:
            return Looked(thread, python=python)
        if thread.registers is None:
            # One that has ended has none.
            if not thread.task_state & TASK_DEAD:
                self._remarks[NO_REGISTERS] = None
            return Looked(thread, python=python)
        try:
            stack = self._unwound(self._space, thread.registers)
        except KernelDelayError as error:
            self._remarks[str(error)] = None
            stack = None
        call = self._call(thread, thread.registers)
        # One that was woken waits for the CPU, no longer for what it called for.
        if call is None or thread.task_state == TASK_RUNNING:
            return Looked(thread, stack=stack, python=python)
        gil = self._gil_wait(thread, call, names)
        if gil is not None:
            return Looked(thread, stack=stack, python=python, gil=gil)
        read = self._memory.read
        calls = Calls(self._target.pid, self._files, read, names, self._pointers, self._ahead_ns)
        return Looked(thread, calls.waited(call), stack, python)

    def still_waits_for_gil(self, thread: StandingThread, names: OwnNames) -> GilWait | None:
        """Look once more at a thread that ran again each time, as who waits for the GIL does.

        Such a thread wakes up every 5 ms (sys.getswitchinterval()), and waits again. The holder
        is the one that was found before the kernel's record was read, and is still the same.
        """
        if thread.registers is None or thread.task_state == TASK_RUNNING:
            return None
        call = self._call(thread, thread.registers)
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
        if futex is None:
            return None
        holder = self._python.gil_holder(futex, since_before=since_before)
        return None if holder is None else gil_wait(holder, thread.own_tid, names)

    def _call(self, thread: StandingThread, registers: tuple[int, ...]) -> Call | None:
        name = self._call_name(thread)
        if name is None:
            return None
        return Call(name, arguments_of(registers, thread.compat), thread.compat)

    def _call_name(self, thread: StandingThread) -> str | None:
        """The name of its call; of one that goes on after a stop, of that which was stopped."""
        if thread.syscall is None:
            return None
        name = syscall(thread.syscall, thread.compat).name or f"system call {thread.syscall}"
        if name not in RESTARTS or thread.compat:
            return name
        frames = self._kernel.frames(_return_addresses(thread.kernel))
        return restarted_call([frame.name for frame in frames if frame.name]) or name

    def _unwound(self, space: AddressSpaceApart, registers: tuple[int, ...]) -> Stack:
        machine = space.machine
        in_order = tuple(registers[place] for place in DWARF_REGISTERS[machine])
        sp = in_order[STACK_POINTER[machine]]
        (stack,) = space.unwind([(in_order, self._memory.read(sp, SHALLOW_STACK), sp, 0)])
        if stack.end == "short":
            (stack,) = space.unwind([(in_order, self._memory.read(sp, DEEP_STACK), sp, 0)])
        return stack

    def position(self, looked: Sequence[Looked], found: Found) -> ProcessPosition:
        """The process, with what was seen of its threads by names.

        `found`: what their descriptors are.
        """
        pid = self._target.pid
        threads = tuple(self._thread(each, found) for each in looked)
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

    def _thread(self, looked: Looked, found: Found) -> ThreadPosition:
        thread, stack = looked.thread, looked.stack
        waited = with_files(looked.waited, self._files, found)
        state = state_of(thread)
        frames = self._kernel.frames(_return_addresses(thread.kernel))
        reason = None
        if state in ("sleeping", "uninterruptible"):
            reason = sleep_reason([frame.name for frame in frames if frame.name])
        if reason == "file_lock":
            waited = self._file_lock(waited, looked.waited.descriptors)
        user, missing = self._user(looked)
        return ThreadPosition(
            tid=thread.tid,
            name=thread.comm,
            state=state,
            at_least_ns=at_least_ns(thread, state),
            cpu=thread.cpu,
            syscall=self._call_name(thread),
            waits_for=waited.words,
            timeout_ns=waited.timeout_ns,
            reason=reason,
            holders=(
                *_tracer(thread, state),
                *map(self._with_state, (*_lock_holder(thread.lock), *waited.holders)),
            ),
            kernel_lock=self._kernel.name_of(thread.lock.address) if thread.lock else None,
            stopped_by=stop_signal(thread) if state == "stopped" else None,
            kernel=tuple(map(stack_frame, frames)),
            user=user,
            user_end=None if stack is None else stack.end,
            remark="; ".join(filter(None, (looked.remark, missing))) or None,
        )

    def _user(self, looked: Looked) -> tuple[tuple[UserFrame, ...], str | None]:
        """The user stack with its Python frames, and what is missing of them."""
        stack = looked.stack
        if stack is None or self._space is None:
            return joined((), None, looked.python)
        return joined(self._named(self._space, stack), stack.end, looked.python)

    def _file_lock(self, waited: Waited, descriptors: Sequence[Descriptor]) -> Waited:
        fd = descriptors[0].fd if descriptors else None
        owners = (Holder("owner", pid, comm) for comm, pid in lock_owners(self._target.pid, fd))
        holders = (*waited.holders, *islice(owners, MOST_NAMED))
        return structs.replace(waited, holders=holders)

    def _with_state(self, holder: Holder) -> Holder:
        """A holder, with what keeps it from running; many threads may have the same one."""
        # What peers do was looked at with their files.
        if holder.relation == "peer":
            return holder
        tid = holder.tid
        if tid not in self._held:
            self._held[tid] = _held(tid)
        return structs.replace(holder, held=self._held[tid])

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


def _held(tid: int) -> Held | None:
    try:
        state = read_stat(tid).state
    except (OSError, IndexError):
        return None
    if state in _STOPPED:
        return _STOPPED[state]
    return "frozen" if read_freezers([tid])[tid] else None


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
