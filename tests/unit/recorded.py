"""What the programs record, written into this process's memory by tests."""

import mmap
from typing import TYPE_CHECKING

from kernel_delay.capture.threads.rings import RingMemory
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import Lost
from tests.unit.windows import new_control

if TYPE_CHECKING:
    from kernel_delay.loader._records import (
        DumpedThread,
        OwnerRecord,
        RingPosition,
        SyscallRecord,
        ThreadRecord,
        ThreadState,
    )

KINDS = ("thread_record", "syscall_record", "hard_irq_record", "owner_record", "sleep_record")
RECORDS = 64
SLICES = 4
CPUS = 2

# include/uapi/asm-generic/unistd.h has other numbers; what these calls are does not matter.
CALL = 1000


class Recorded:
    """Programs in their own stead: a RecordSource whose every record a test has made."""

    def __init__(self, *, accounting: bool = True) -> None:
        """Have seen nothing."""
        self.accounting = accounting
        self.sees_faults = True
        self.control = new_control()
        self.freed_slots = mmap.mmap(-1, len(KINDS) * RECORDS * ffi.sizeof("uint64_t"))
        self.run_queues = mmap.mmap(-1, CPUS * ffi.sizeof("struct run_queue"))
        self.slices = mmap.mmap(-1, CPUS * SLICES * ffi.sizeof("struct slice"))
        self._memory = {
            kind: mmap.mmap(-1, RECORDS * ffi.sizeof(f"struct {kind}")) for kind in KINDS
        }
        self.rings = RingMemory.of(self.ring_memory)
        self.missed_events = 0
        self.clamped = 0
        self.states: list[DumpedThread] = []
        self.readings = 0

    @property
    def slices_per_cpu(self) -> int:
        """As the maps have it."""
        return SLICES

    def ring_memory(self, kind: str) -> mmap.mmap:
        """A ring's memory."""
        return self._memory[kind]

    def thread_states(self) -> bytes:
        """The states that the test has the threads in."""
        self.readings += 1
        return b"".join(
            bytes(ffi.buffer(state, ffi.sizeof("struct dumped_thread"))) for state in self.states
        )

    def sleep_stacks(self) -> bytes:
        """None."""
        return b""

    def newest_epoch(self) -> int:
        """The number of the newest window."""
        return self.control.epoch

    def missed(self) -> Lost:
        """What the test says was missed."""
        return Lost(missed_events=self.missed_events)

    def missed_hits(self) -> int:
        """None."""
        return 0

    def clamped_lengths(self) -> int:
        """What the test says was clamped."""
        return self.clamped

    def open_window(self, start_ns: int, stop_ns: int) -> int:
        """Begin the next epoch; returns its number."""
        lib.publish_window(self.control, start_ns, stop_ns)
        return self.control.epoch

    def state(self, identity: int, tid: int, name: bytes) -> "DumpedThread":
        """A thread that is blocked in a call since before anything; to be changed by the test."""
        state = ffi.new("struct dumped_thread *")
        state.identity = identity
        state.tid = state.own_tid = tid
        _copy_name(state, name)
        block_in_call(state.now, 0)
        self.states.append(state)
        return state

    def thread(self, identity: int, tid: int, name: bytes, epoch: int) -> "ThreadRecord":
        """Make a thread's record of an epoch."""
        record = self.rings.threads[self._take(lib.THREAD_RING)]
        record.identity = identity
        record.tid = record.own_tid = tid
        record.epoch = epoch
        _copy_name(record, name)
        block_in_call(record.account.first, 0)
        record.number = self._position(lib.THREAD_RING).head
        return record

    def syscall(self, thread: int, ns: int) -> "SyscallRecord":
        """Make a record of one call of a thread's, whose record has that number."""
        record = self.rings.syscalls[self._take(lib.SYSCALL_RING)]
        record.thread = thread
        record.syscall = CALL
        record.calls.count = 1
        record.calls.total_ns = record.calls.min_ns = record.calls.max_ns = ns
        record.number = self._position(lib.SYSCALL_RING).head
        return record

    def lock_wait(self, thread: int, lock: int, owner: int, ns: int) -> "OwnerRecord":
        """Make a record of a wait of a thread's for a lock that another owns."""
        record = self.rings.owners[self._take(lib.OWNER_RING)]
        record.thread = thread
        record.lock = lock
        record.info.task = owner
        record.waits = 1
        record.total_ns = ns
        record.number = self._position(lib.OWNER_RING).head
        return record

    def _take(self, ring: int) -> int:
        """As take_record() in bpf/thread_record.h."""
        position = self._position(ring)
        assert position.head - position.tail < RECORDS
        position.head += 1
        return position.head % RECORDS

    def _position(self, ring: int) -> "RingPosition":
        return self.control.rings[ring]


def block_in_call(state: "ThreadState", since_ns: int) -> None:
    """Have a thread sleep in a call since that time."""
    state.mode = lib.MODE_SYSCALL
    state.syscall = CALL
    state.state = lib.STATE_BLOCKED
    state.mode_since_ns = state.state_since_ns = since_ns


def _copy_name(record: "ThreadRecord | DumpedThread", name: bytes) -> None:
    for place in range(len(name)):
        record.comm[place] = name[place : place + 1]
