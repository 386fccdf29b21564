"""The threads as the kernel has them now: where.bpf.c, loaded, and its records."""

import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Self

from msgspec import Struct

from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.host.target import living_thread
from kernel_delay.loader._records import ffi as session_ffi
from kernel_delay.loader._records import lib as session
from kernel_delay.loader.namespace import KernelProcess, find_process
from kernel_delay.loader.objects import load_object, open_object
from kernel_delay.where import State
from kernel_delay.where._where_records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.where._where_records import StandingThread as Record

# include/linux/sched.h, the same from 5.14 to 6.18.
TASK_RUNNING = 0
TASK_UNINTERRUPTIBLE = 2
TASK_STOPPED = 4
TASK_TRACED = 8
TASK_DEAD = 0x80

# include/linux/sched/jobctl.h, the same: the signal of the last stop.
JOBCTL_STOP_SIGMASK = 0xFFFF

EXITED = "the processes have exited: nothing to look at"

LockKind = Literal["mutex", "semaphore", "rwsem", "readers"]

_LOCK_KINDS: dict[int, LockKind] = {
    lib.KERNEL_LOCK_MUTEX: "mutex",
    lib.KERNEL_LOCK_SEMAPHORE: "semaphore",
    lib.KERNEL_LOCK_RWSEM: "rwsem",
    lib.KERNEL_LOCK_READERS: "readers",
}

# kernel/locking/rwsem.c (5.14 to 6.18): RWSEM_WRITER_LOCKED, RWSEM_FLAG_WAITERS and _HANDOFF. Who
# comes to read meanwhile waits too.
_READERS_WAIT = 7


class KernelLock(Struct, frozen=True):
    """A lock of the kernel's that a thread waits for.

    Attributes:
        kind: The lock's type; "readers": a rwsem that readers hold.
        holder: The thread that holds it, of readers the last that took it; 0: not known.
        comm: The holder's name.
        address: Where the kernel has the lock.
    """

    kind: LockKind
    holder: int
    comm: str
    address: int


class StandingThread(Struct, frozen=True):
    """A thread as the kernel has it; fields as in struct standing_thread.

    Attributes:
        off_cpu_ns: How long it has been off its CPU at least. None: not known, or it is on one.
        queued_ns: How long it has waited for a CPU at least. None: not known, or it does not.
        syscall: The number of the call that it is in. None: in none, or not known.
        thread_pointer: FS base on x86-64, TPIDR_EL0 on arm64. 0: not known.
        compat: The number is of the ABI of 32-bit programs.
        registers: The program's, in the order of struct pt_regs. None: not known.
        kernel: Return addresses, the innermost first.
        lock: The lock of the kernel's that it waits for. None: none, or not known.
        blocks_readers: Who reads its memory now would wait for the lock of the address space.
    """

    tid: int
    process: int
    own_tid: int
    comm: str
    task_state: int
    on_cpu: bool
    cpu: int
    switches: int
    jobctl: int
    thread_pointer: int
    is_frozen: bool
    is_throttled: bool
    is_kernel_worker: bool
    off_cpu_ns: int | None
    queued_ns: int | None
    syscall: int | None
    compat: bool
    registers: tuple[int, ...] | None
    kernel: tuple[int, ...]
    lock: KernelLock | None
    blocks_readers: bool


class Standing:
    """where.bpf.c in the kernel, for some processes, from construction to close()."""

    def __init__(self, pids: Sequence[int]) -> None:
        """Load it for what the tool sees as these processes.

        Raises NoInputError if all have exited, and else as load_object() does.
        """
        processes = list(_known(pids))
        if not processes:
            raise NoInputError(EXITED)
        self._object = open_object("where")
        try:
            initial = self._object.map(".rodata.options").initial_values()
            options = session_ffi.cast("struct options *", initial)
            options.pid_level = processes[0].pid_level
            load_object(self._object)
            # A bit for each number; bytes and words have the same ones on both architectures.
            with self._object.map(".bss").mmap(writable=True) as targets:
                for process in processes:
                    targets[process.tgid // 8] |= 1 << process.tgid % 8
        except BaseException:
            self._object.close()
            raise

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Unload it."""
        self._object.close()

    def threads(self) -> tuple[StandingThread, ...]:
        """Return the threads that there are now."""
        written = self._object.program("where_threads").iterate()
        return tuple(map(_thread, ffi.from_buffer("struct standing_thread[]", written)))


def _known(pids: Sequence[int]) -> Iterator[KernelProcess]:
    """Those that the kernel knows; one that has exited meanwhile has no number in a container."""
    for pid in pids:
        try:
            yield find_process(pid)
        except UnavailableError:
            if living_thread(pid) is not None:
                raise


def _thread(record: "Record") -> StandingThread:
    is_in_call = record.syscall != session.NO_SYSCALL
    return StandingThread(
        tid=record.tid,
        process=record.process,
        own_tid=record.own_tid,
        comm=_text(ffi.string(record.comm)),
        task_state=record.task_state,
        on_cpu=bool(record.on_cpu),
        cpu=record.cpu,
        switches=record.switches,
        jobctl=record.jobctl,
        thread_pointer=record.thread_pointer,
        is_frozen=bool(record.is_frozen),
        is_throttled=bool(record.is_throttled),
        is_kernel_worker=bool(record.is_kernel_worker),
        off_cpu_ns=None if record.on_cpu else _off_cpu_ns(record),
        queued_ns=_since(record, record.queued_ns),
        syscall=record.syscall & ~session.COMPAT_SYSCALL if is_in_call else None,
        compat=is_in_call and bool(record.syscall & session.COMPAT_SYSCALL),
        registers=tuple(record.registers[0 : lib.STANDING_REGISTERS])
        if record.has_registers
        else None,
        kernel=tuple(record.kernel[0 : record.kernel_frames]),
        lock=_lock(record),
        blocks_readers=bool(record.mmap_lock & _READERS_WAIT),
    )


def _off_cpu_ns(record: "Record") -> int | None:
    """How long it has been off its CPU, by the clock of the CPU's run queue.

    Its task clock does not count what interrupts and the hypervisor took: what it is behind by now
    is taken off, so that the rest is not too much (kernel/sched/core.c:update_rq_clock_task()).
    """
    if not record.left_cpu_ns:
        return None
    return _since(record, record.left_cpu_ns + record.not_counted_ns)


def _since(record: "Record", then_ns: int) -> int | None:
    if not record.now_ns or not then_ns:
        return None
    return max(0, record.now_ns - then_ns)


def _lock(record: "Record") -> KernelLock | None:
    kind = _LOCK_KINDS.get(record.lock_kind)
    if kind is None:
        return None
    comm = _text(ffi.string(record.lock_holder_comm))
    return KernelLock(kind, record.lock_holder, comm, record.kernel_lock)


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")


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
