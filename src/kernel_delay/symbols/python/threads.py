"""The threads of an interpreter, and the frames of each."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from kernel_delay.symbols.memory import Read
from kernel_delay.symbols.python import PythonEnd, PythonFrame, PythonStack
from kernel_delay.symbols.python.gil import GilHolder, is_waited_for, read_gil
from kernel_delay.symbols.python.interpreter import Interpreter
from kernel_delay.symbols.python.layouts import Layout
from kernel_delay.symbols.python.objects import (
    POINTER_BYTES,
    Code,
    Objects,
    int_in,
    word_in,
)

MOST_INTERPRETERS = 256
MOST_THREADS = 4096
MOST_FRAMES = 256

MOST_CALLS = 256
"""Calls of the interpreter in C; one of 3.12 or newer may have no frame yet."""

MOST_READS = 4
"""How often frames are read that changed meanwhile."""

READING_S = 5.0
"""The CPU time that reading the frames of all threads of a process may take."""

LARGEST_PTHREAD = 4096
"""Bytes from what pthread_self() returns to the thread pointer. On x86-64 both are the same. On
arm64 the structure of the thread is between them, some 2 KiB in glibc (struct pthread). Two threads
are further apart: each has its stack."""

# _PyStackRef has flags in the lowest bits: Include/internal/pycore_stackref.h (3.14). Objects
# are aligned to 16 bytes.
_TAGS = 3


_UNKNOWN_TID = 0
"""Of a thread that began after the thread pointers were noted."""


class ThreadsError(Exception):
    """The interpreter's threads can't be found: its memory does not fit together."""


class ThreadPointers(Struct, frozen=True):
    """The thread pointers of a process, as FS base on x86-64 and TPIDR_EL0 on arm64.

    Attributes:
        own_tids: The thread IDs that the process itself knows, by the thread pointers.
        leader: The thread pointer of the first thread. 0: not known.
    """

    own_tids: Mapping[int, int]
    leader: int = 0


class _RawFrame(Struct, frozen=True):
    """A frame: where it is, its code object, the instruction, and whether it ends a call."""

    address: int
    executable: int
    instruction: int
    is_entry: bool


class Threads:
    """The threads of one interpreter that run Python."""

    def __init__(
        self,
        interpreter: Interpreter,
        layout: Layout,
        read: Read,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """Know none yet.

        Args:
            interpreter: Where it is.
            layout: Its layout.
            read: Reads memory of the process.
            forget: Has `read` read again what it has kept.
        """
        self._runtime = interpreter.runtime
        self._layout = layout
        self._read = read
        self._forget = forget
        self._objects = Objects(read, layout, interpreter.code_type)
        self._frame_type = interpreter.frame_type
        self._frame_bytes = POINTER_BYTES + max(
            layout.executable, layout.previous, layout.instruction, layout.entry
        )
        self._states: dict[int, list[int]] = {}
        self._tids: dict[int, int] = {}
        self._gils: frozenset[int] = frozenset()
        self._holders: dict[int, GilHolder] = {}
        self._left_s = READING_S

    def note(self, pointers: ThreadPointers | None = None) -> None:
        """Note which threads there are now.

        The list can change while it is read. A walk that leads elsewhere is made again, and the
        walk that found most counts.

        Args:
            pointers: The thread pointers. Before 3.11 no thread is known without them.

        Raises:
            ThreadsError: The memory does not fit together: nothing in the list is a thread, or
                before 3.11 nothing in it has one of the thread pointers.
        """
        self._states = {}
        self._tids = {}
        self._gils = frozenset()
        self._holders = {}
        own_tids = self._by_pthread(pointers or ThreadPointers({}))
        for _ in range(MOST_READS):
            self._forget()
            found, is_whole = self._walk(own_tids)
            if sum(map(len, found.values())) > len(self):
                self._states = found
            if is_whole:
                break
        else:
            if not self._states:
                raise ThreadsError
        if self._layout.native_thread_id is None and set(self._states) == {_UNKNOWN_TID}:
            raise ThreadsError
        self._tids = {state: tid for tid, states in self._states.items() for state in states}
        self._gils = self._all_gils()

    def _by_pthread(self, pointers: ThreadPointers) -> dict[int, int]:
        """The thread IDs by what pthread_self() returns; empty if the thread states have them.

        The first thread of the interpreter is the first of the process, as a rule. Its two
        addresses then say how far both are apart in all threads.
        """
        if self._layout.native_thread_id is not None:
            return {}
        apart = pointers.leader - self._objects.word(self._runtime + self._layout.main_thread)
        if not pointers.leader or not 0 <= apart < LARGEST_PTHREAD:
            apart = 0
        return {pointer - apart: tid for pointer, tid in pointers.own_tids.items()}

    def _walk(self, own_tids: Mapping[int, int]) -> tuple[dict[int, list[int]], bool]:
        """The thread states by the thread IDs; whether all of them are thread states."""
        layout = self._layout
        found: dict[int, list[int]] = defaultdict(list)
        for state, interpreter in islice(self._all_states(), MOST_THREADS):
            if self._objects.word(state + layout.thread_interpreter) != interpreter:
                return found, False
            if layout.native_thread_id is not None:
                tid = self._objects.word(state + layout.native_thread_id)
            else:
                pthread = self._objects.word(state + layout.thread_id)
                tid = own_tids.get(pthread, _UNKNOWN_TID)
            found[tid].append(state)
        return found, True

    def __len__(self) -> int:
        """Return how many threads were noted."""
        return sum(map(len, self._states.values()))

    def tids(self) -> tuple[int, ...]:
        """Return the threads that were noted, by the thread IDs that the process itself knows."""
        return tuple(self._states)

    def _all_gils(self) -> frozenset[int]:
        """The addresses of the interpreter locks."""
        layout = self._layout
        if layout.runtime_gil is not None:
            return frozenset((self._runtime + layout.runtime_gil,))
        if layout.interpreter_gil is None:
            return frozenset()
        place = layout.interpreter_gil
        return frozenset(self._objects.word(each + place) for each in self._interpreters()) - {0}

    def _interpreters(self) -> Iterator[int]:
        """The addresses of the interpreters."""
        first = self._objects.word(self._runtime + self._layout.interpreters_head)
        return self._linked(first, self._layout.interpreter_next, MOST_INTERPRETERS)

    def _all_states(self) -> Iterator[tuple[int, int]]:
        """The thread states, each with its interpreter's address."""
        layout = self._layout
        for interpreter in self._interpreters():
            head = self._objects.word(interpreter + layout.threads_head)
            for state in self._linked(head, layout.thread_next, MOST_THREADS):
                yield state, interpreter

    def _linked(self, first: int, offset: int, most: int) -> Iterator[int]:
        """The addresses of a linked list."""
        passed: set[int] = set()
        address = first
        while address and address not in passed and len(passed) < most:
            passed.add(address)
            yield address
            address = self._objects.word(address + offset)

    def stack(self, tid: int) -> PythonStack | None:
        """Read the frames of a thread.

        Args:
            tid: The thread ID that the process itself knows.

        Returns:
            The frames. None: the thread runs no Python, or runs in several interpreters, or the
            time for all threads is used up.
        """
        began = time.thread_time()
        if self._left_s <= 0:
            return None
        self._forget()
        try:
            running = [state for state in self._states.get(tid, ()) if self._current(state)]
            return self._stack(running[0]) if len(running) == 1 else None
        finally:
            self._left_s -= time.thread_time() - began

    def gil_holder(self, futex: int) -> GilHolder | None:
        """Find who holds the interpreter lock that a thread waits for.

        Args:
            futex: The address of the futex that the thread waits for.

        Returns:
            The holder. None: the futex is not of an interpreter lock, the holder is not known,
            or the time for all threads is used up.
        """
        began = time.thread_time()
        if self._left_s <= 0:
            return None
        gil = self._gil_of(futex)
        if gil is None:
            return None
        try:
            return self._known_holder(gil) or self._read_holder(gil)
        finally:
            self._left_s -= time.thread_time() - began

    def same_gil_holder(self, futex: int) -> GilHolder | None:
        """Find who has held the interpreter lock since gil_holder() found the holder.

        Args:
            futex: The address of the futex that a thread waits for.

        Returns:
            The holder. None: the futex is not of an interpreter lock, gil_holder() did not find
            the holder since the threads were noted, or the lock has changed.
        """
        gil = self._gil_of(futex)
        return None if gil is None else self._known_holder(gil)

    def is_still_held(self, holder: GilHolder) -> bool:
        """Whether an interpreter lock has not gone to another thread.

        Args:
            holder: Who held it.

        Returns:
            Whether the same thread holds it, and no other has held it meanwhile.
        """
        return any(read_gil(self._read_anew, holder.gil) == holder.state for _ in range(MOST_READS))

    def _read_anew(self, address: int, size: int) -> bytes:
        """Read what is there now, and not what was kept."""
        self._forget()
        return self._read(address, size)

    def _gil_of(self, futex: int) -> int | None:
        return next((gil for gil in self._gils if is_waited_for(gil, futex)), None)

    def _known_holder(self, gil: int) -> GilHolder | None:
        known = self._holders.get(gil)
        return known if known is not None and self.is_still_held(known) else None

    def _read_holder(self, gil: int) -> GilHolder | None:
        """The holder and its function, if it has the lock from before to behind reading these."""
        for _ in range(MOST_READS):
            state = read_gil(self._read_anew, gil)
            if state is None:
                continue
            tid = self._tids.get(state.holder, _UNKNOWN_TID)
            if tid == _UNKNOWN_TID:
                return None
            frame, is_steady = self._innermost(state.holder)
            if is_steady and read_gil(self._read_anew, gil) == state:
                found = self._holders[gil] = GilHolder(gil, tid, frame, state)
                return found
        return None

    def _innermost(self, state: int) -> tuple[PythonFrame | None, bool]:
        """The innermost frame, and whether it was the same when it was read again."""
        before, _ = self._raw(state, 1)
        calls, _ = self._calls(before)
        self._forget()
        after, _ = self._raw(state, 1)
        frame = next((frame for call in calls for frame in call), None)
        return frame, _chain(before) == _chain(after)

    @property
    def is_late(self) -> bool:
        """Whether the time for all threads is used up."""
        return self._left_s <= 0

    def _stack(self, state: int) -> PythonStack:
        for _ in range(MOST_READS):
            before, end = self._raw(state)
            calls, is_known = self._calls(before)
            self._forget()
            after, _ = self._raw(state)
            is_steady = _chain(before) == _chain(after)
            if is_steady:
                break
        return PythonStack(calls, end if is_known else "broken", is_steady)

    def _current(self, state: int) -> int:
        """The address of the innermost frame; 0 if there is none."""
        layout = self._layout
        if layout.c_frame is not None:
            state = self._objects.word(state + layout.c_frame)
            if not state:
                return 0
        return self._objects.word(state + layout.current_frame)

    def _raw(self, state: int, most: int = MOST_FRAMES) -> tuple[list[_RawFrame], PythonEnd]:
        """The chain of frames up to so many functions, the innermost first, and how it ends."""
        layout = self._layout
        frames: list[_RawFrame] = []
        passed: set[int] = set()
        functions = 0
        address = self._current(state)
        while address:
            if functions >= most or len(frames) >= most + MOST_CALLS:
                return frames, "long"
            content = self._read(address, self._frame_bytes)
            if address in passed or len(content) < self._frame_bytes:
                return frames, "broken"
            if not self._is_frame(content):
                return frames, "broken"
            passed.add(address)
            executable = word_in(content, layout.executable) & ~_TAGS
            if layout.instruction_bytes is None:
                instruction = word_in(content, layout.instruction)
            else:
                instruction = int_in(content, layout.instruction)
            is_entry = content[layout.entry] >= layout.entry_from
            frames.append(_RawFrame(address, executable, instruction, is_entry))
            functions += layout.entry_is_function or not is_entry
            address = word_in(content, layout.previous)
        return frames, "whole"

    def _is_frame(self, content: bytes) -> bool:
        """Whether it is a frame: before 3.11 it is an object with a type."""
        layout = self._layout
        if layout.instruction_bytes is None or self._frame_type is None:
            return True
        return word_in(content, layout.type) == self._frame_type

    def _calls(self, frames: list[_RawFrame]) -> tuple[tuple[tuple[PythonFrame, ...], ...], bool]:
        """The frames of each call of the interpreter; whether all are frames."""
        calls: list[tuple[PythonFrame, ...]] = []
        call: list[PythonFrame] = []
        is_known = True
        for frame in frames:
            if self._layout.entry_is_function or not frame.is_entry:
                code = self._objects.code(frame.executable)
                if code is None:
                    is_known = False
                    break
                if not _is_of_the_interpreter(code):
                    line = self._objects.line(code, frame.instruction)
                    call.append(PythonFrame(code.function, code.file, line))
            if frame.is_entry:
                calls.append(tuple(call))
                call = []
        if call:
            calls.append(tuple(call))
        return tuple(calls), is_known


def _is_of_the_interpreter(code: Code) -> bool:
    """Whether it is _Py_InitCleanup (3.12 to 3.14), which calls __init__ and has no file."""
    return code.function == code.file == "__init__"


def _chain(frames: list[_RawFrame]) -> object:
    """What two readings of a thread that stood still have in common."""
    innermost = [(frame.address, frame.executable) for frame in frames[:1]]
    return innermost, frames[1:]
