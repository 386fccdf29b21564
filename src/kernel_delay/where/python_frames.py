"""Python's own frames of a process's threads, and the user stacks with these frames in them.

Who waits for Python's interpreter lock is here too.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from kernel_delay.model import StackFrame
from kernel_delay.symbols import ProcessImage
from kernel_delay.symbols.memory import Pages, ProcessMemory
from kernel_delay.symbols.python import PythonFrame, PythonStack
from kernel_delay.symbols.python.gil import GilHolder
from kernel_delay.symbols.python.interpreter import find_interpreter
from kernel_delay.symbols.python.threads import (
    MOST_THREADS,
    READING_S,
    ThreadPointers,
    Threads,
    ThreadsError,
)
from kernel_delay.where import Holder, UserFrame
from kernel_delay.where.calls import Waited

EVALUATE = "_PyEval_EvalFrameDefault"
"""The function of CPython that runs Python functions; compilers append a suffix."""

WITHOUT_RUNTIME = frozenset(("2.7", *(f"3.{minor}" for minor in range(7))))
"""Versions before 3.7 have no _PyRuntime."""

_GREENLET = "/_greenlet."
"""In the path of greenlet's extension, below which the stack is another greenlet's."""

_OF_PERF_MAP = "py::"
"""With `-X perf` the stack has Python functions already."""

GIL = "Python's interpreter lock (GIL)"

SNAPSHOT = "the thread was running: its Python frames are a snapshot that may not fit together"
BROKEN = "its Python frames end early: the next one cannot be read"
LONG = "the innermost Python frames are shown; there are more"
UNMATCHED = (
    "its Python frames are shown first: they do not match the calls of the interpreter in its"
    " user stack"
)
MANY = f"Python frames are read of the first {MOST_THREADS:,} threads that run Python"
LATE = f"Python frames of some threads are not read: reading took {READING_S:g} s of a CPU"

_ENDS = {"broken": BROKEN, "long": LONG}


class GilWait(Struct, frozen=True):
    """A wait for an interpreter lock.

    Attributes:
        holder: Who held the lock when the thread was looked at.
        tid: The thread ID of the holder.
        name: The name of the holder.
    """

    holder: GilHolder
    tid: int
    name: str

    def waited(self, *, is_still_held: bool) -> Waited:
        """Say what the thread waits for.

        Args:
            is_still_held: The lock has not gone to another thread since. Else the holder is none
                that can be part of a deadlock.

        Returns:
            The lock, and its holder.
        """
        function = ""
        frame = self.holder.frame
        if frame is not None:
            line = "" if frame.line is None else f":{frame.line}"
            function = f" in {frame.function} ({frame.file.rpartition('/')[2]}{line})"
        thread = f"{self.name} ({self.tid})"
        if not is_still_held:
            return Waited(f"{GIL}, which changes hands: {thread} held it{function}")
        owner = Holder("owner", self.tid, self.name)
        return Waited(f"{GIL}, held by {thread}{function}", (owner,))


class PythonThreads:
    """The threads of one process that run Python, if it has an interpreter."""

    def __init__(self, image: ProcessImage, memory: ProcessMemory) -> None:
        """Find the interpreter.

        Args:
            image: The files that the process maps as code.
            memory: The memory of the process.
        """
        self._remark: str | None = None
        self._is_late = False
        self._threads: Threads | None = None
        found = find_interpreter(image.objects, memory.read)
        if found is None:
            return
        version = found.version or "of an unknown version"
        self._unknown = f"Python {version}: its frames are not known"
        if not found.runtime and version not in WITHOUT_RUNTIME:
            self._unknown += ": no file of it has the symbol _PyRuntime"
        if found.layout is None:
            self._remark = self._unknown
        else:
            pages = Pages(memory.read)
            self._threads = Threads(found, found.layout, pages.read, pages.forget)

    def note(self, pointers: ThreadPointers | None = None) -> None:
        """Note which threads there are now.

        Args:
            pointers: The thread pointers of the process. None: not known.
        """
        if self._threads is None:
            return
        try:
            self._threads.note(pointers)
        except ThreadsError:
            self._remark = self._unknown
        else:
            self._remark = MANY if len(self._threads) >= MOST_THREADS else None

    def stack(self, own_tid: int) -> PythonStack | None:
        """Read the Python frames of a thread.

        Args:
            own_tid: The thread ID that the process itself knows.

        Returns:
            The frames. None: there are none, or they are not known.
        """
        if self._threads is None:
            return None
        found = self._threads.stack(own_tid)
        self._is_late = self._threads.is_late
        return found

    def gil_holder(self, futex: int, *, since_before: bool = False) -> GilHolder | None:
        """Find who holds the interpreter lock that a thread waits for.

        Args:
            futex: The address of the futex that the thread waits for.
            since_before: Only a holder that another call has found, since the threads were noted,
                and that has held the lock since.

        Returns:
            The holder. None: the futex is not of an interpreter lock, or the holder is not known.
        """
        if self._threads is None:
            return None
        if since_before:
            return self._threads.same_gil_holder(futex)
        found = self._threads.gil_holder(futex)
        self._is_late = self._threads.is_late
        return found

    def is_still_held(self, holder: GilHolder) -> bool:
        """Whether an interpreter lock has not gone to another thread.

        Args:
            holder: Who held it.

        Returns:
            Whether the same thread holds it, and no other has held it meanwhile.
        """
        return self._threads is not None and self._threads.is_still_held(holder)

    def remarks(self) -> tuple[str, ...]:
        """Return what is missing of the frames of all threads, and why."""
        late = LATE if self._is_late else None
        return tuple(remark for remark in (self._remark, late) if remark is not None)


def gil_wait(
    holder: GilHolder, own_tid: int, names: Mapping[int, tuple[int, str]]
) -> GilWait | None:
    """Return the wait of a thread for an interpreter lock.

    Args:
        holder: Who holds the lock.
        own_tid: The thread that waits, by the thread ID that the process itself knows.
        names: The thread IDs and names of the process's threads, by the IDs that it knows itself.

    Returns:
        The wait. None: the thread holds the lock itself, or the holder has no name.
    """
    if holder.tid == own_tid or holder.tid not in names:
        return None
    return GilWait(holder, *names[holder.tid])


def joined(
    frames: Sequence[StackFrame], end: str | None, python: PythonStack | None
) -> tuple[tuple[UserFrame, ...], str | None]:
    """Put the Python frames in the place of the interpreter's frames.

    Args:
        frames: The user stack, the innermost function first.
        end: Why the user stack ends: "whole", "short" or "lost". None: there is none.
        python: The Python frames. None: there are none.

    Returns:
        The stack with both, and what is missing of it, or None.
    """
    user = tuple(UserFrame(**structs.asdict(frame)) for frame in frames)
    if python is None or any((frame.name or "").startswith(_OF_PERF_MAP) for frame in user):
        return user, None
    remarks = [] if python.is_steady else [SNAPSHOT]
    if python.end in _ENDS:
        remarks.append(_ENDS[python.end])
    places = _places(user, python)
    is_whole = end in (None, "whole")
    if not places and is_whole:
        found = (*_shown(python.frames, 0), *user)
    elif _fit(len(places), is_whole, python):
        found = _replaced(user, places, python)
    else:
        remarks.append(UNMATCHED)
        found = (*_shown(python.frames, 0), *user)
    return found, "; ".join(remarks) or None


def _places(user: Sequence[UserFrame], python: PythonStack) -> list[int]:
    """Where the interpreter's frames of these Python frames are in the stack."""
    places = [at for at, frame in enumerate(user) if _evaluates(frame)]
    for at, frame in enumerate(user):
        if _GREENLET in (frame.object or ""):
            own = [place for place in places if place < at]
            return own if len(own) == len(python.calls) else places
    return places


def _evaluates(frame: StackFrame) -> bool:
    return frame.name is not None and frame.name.partition(".")[0] == EVALUATE


def _fit(places: int, is_whole: bool, python: PythonStack) -> bool:
    """Whether each stack has all calls of the other, as far as both are known."""
    calls = len(python.calls)
    return (calls <= places or not is_whole) and (places <= calls or python.end != "whole")


def _replaced(
    user: Sequence[UserFrame], places: Sequence[int], python: PythonStack
) -> tuple[UserFrame, ...]:
    """The user stack; behind it the Python frames of calls that it is too short for."""
    calls = dict(zip(places, python.calls, strict=False))
    found: list[UserFrame] = []
    for at, frame in enumerate(user):
        # A call that has just begun has no frame yet.
        found += _shown(calls.get(at, ()), frame.address) or (frame,)
    for call in python.calls[len(places) :]:
        found += _shown(call, 0)
    return tuple(found)


def _shown(frames: Sequence[PythonFrame], address: int) -> tuple[UserFrame, ...]:
    return tuple(
        UserFrame(
            address=address,
            name=frame.function,
            offset=0,
            object=frame.file,
            source=None if frame.line is None else f"{frame.file}:{frame.line}",
            language="python",
        )
        for frame in frames
    )
