"""The threads of an interpreter, and the frames of each."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from kernel_delay.symbols.memory import Read
from kernel_delay.symbols.python import PythonEnd, PythonFrame, PythonStack
from kernel_delay.symbols.python.interpreter import Interpreter
from kernel_delay.symbols.python.layouts import Layout
from kernel_delay.symbols.python.objects import POINTER_BYTES, Code, Objects, word_in

MOST_INTERPRETERS = 256
MOST_THREADS = 4096
MOST_FRAMES = 256

MOST_CALLS = 256
"""Calls of the interpreter in C; one of 3.12 or newer may have no frame yet."""

MOST_READS = 4
"""How often frames are read that changed meanwhile."""

READING_S = 5.0
"""How long the frames of all threads of a process are read."""

# _PyStackRef has flags in the lowest bits: Include/internal/pycore_stackref.h (3.14). Objects
# are aligned to 16 bytes.
_TAGS = 3


class ThreadsError(Exception):
    """The interpreter's threads can't be found: its memory does not fit together."""


class _RawFrame(Struct, frozen=True):
    """A _PyInterpreterFrame: where it is, its code object, the instruction, and what it ends."""

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
        self._frame_bytes = POINTER_BYTES + max(
            layout.executable, layout.previous, layout.instruction, layout.entry
        )
        self._states: dict[int, list[int]] = {}
        self._left_s = READING_S

    def note(self) -> None:
        """Note which threads there are now.

        The list can change while it is read. A walk that leads elsewhere is made again, and the
        walk that found most counts.

        Raises:
            ThreadsError: The memory does not fit together: nothing in the list is a thread.
        """
        self._states = {}
        for _ in range(MOST_READS):
            self._forget()
            found, is_whole = self._walk()
            if sum(map(len, found.values())) > len(self):
                self._states = found
            if is_whole:
                return
        if not self._states:
            raise ThreadsError

    def _walk(self) -> tuple[dict[int, list[int]], bool]:
        """The thread states by the thread IDs; whether all of them are thread states."""
        layout = self._layout
        found: dict[int, list[int]] = defaultdict(list)
        for state, interpreter in islice(self._all_states(), MOST_THREADS):
            if self._objects.word(state + layout.thread_interpreter) != interpreter:
                return found, False
            found[self._objects.word(state + layout.native_thread_id)].append(state)
        return found, True

    def __len__(self) -> int:
        """Return how many threads were noted."""
        return sum(map(len, self._states.values()))

    def tids(self) -> tuple[int, ...]:
        """Return the threads that were noted, by the thread IDs that the process itself knows."""
        return tuple(self._states)

    def _all_states(self) -> Iterator[tuple[int, int]]:
        """The thread states, each with its interpreter's address."""
        layout = self._layout
        first = self._objects.word(self._runtime + layout.interpreters_head)
        for interpreter in self._linked(first, layout.interpreter_next, MOST_INTERPRETERS):
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
        began = time.monotonic()
        if self._left_s <= 0:
            return None
        self._forget()
        try:
            running = [state for state in self._states.get(tid, ()) if self._current(state)]
            return self._stack(running[0]) if len(running) == 1 else None
        finally:
            self._left_s -= time.monotonic() - began

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

    def _raw(self, state: int) -> tuple[list[_RawFrame], PythonEnd]:
        """The chain of frames, the innermost first, and how it ends."""
        layout = self._layout
        frames: list[_RawFrame] = []
        passed: set[int] = set()
        functions = 0
        address = self._current(state)
        while address:
            if functions >= MOST_FRAMES or len(frames) >= MOST_FRAMES + MOST_CALLS:
                return frames, "long"
            content = self._read(address, self._frame_bytes)
            if address in passed or len(content) < self._frame_bytes:
                return frames, "broken"
            passed.add(address)
            executable = word_in(content, layout.executable) & ~_TAGS
            instruction = word_in(content, layout.instruction)
            is_entry = content[layout.entry] >= layout.entry_from
            frames.append(_RawFrame(address, executable, instruction, is_entry))
            functions += layout.entry_is_function or not is_entry
            address = word_in(content, layout.previous)
        return frames, "whole"

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
