"""Python's interpreter lock (GIL): whether a futex is its, and who holds it.

struct _gil_runtime_state is the same from 3.8 to 3.14 in builds with a GIL: Include/internal/
pycore_gil.h. A thread that waits for the lock waits for its condition variable: take_gil() in
Python/ceval_gil.h, from 3.12 on ceval_gil.c.
"""

from msgspec import Struct

from kernel_delay.symbols.memory import Read
from kernel_delay.symbols.python import PythonFrame
from kernel_delay.symbols.python.objects import int_in, word_in

_LAST_HOLDER = 8
_LOCKED = 16
_SWITCH_NUMBER = 24
_CONDITION = 32
_MUTEX = 80
_GIL_BYTES = _MUTEX + 4

# The first int of glibc's pthread_mutex_t: sysdeps/nptl/bits/struct_mutex.h (2.27 to 2.41).
_UNLOCKED = 0


class GilState(Struct, frozen=True):
    """The state of an interpreter lock that a thread holds.

    Attributes:
        holder: The thread state of the holder.
        switches: How often the lock went from one thread to another so far.
    """

    holder: int
    switches: int


class GilHolder(Struct, frozen=True):
    """Who holds an interpreter lock.

    Attributes:
        gil: The address of the lock.
        tid: The thread ID that the process itself knows.
        frame: The Python function that the thread runs. None: none, or not known.
        state: The state of the lock while it was read.
    """

    gil: int
    tid: int
    frame: PythonFrame | None
    state: GilState


def is_waited_for(gil: int, futex: int) -> bool:
    """Whether who waits for a futex waits for an interpreter lock.

    Args:
        gil: The address of the lock.
        futex: The address of the futex.

    Returns:
        Whether the futex is in the condition variable of the lock.
    """
    return gil + _CONDITION <= futex < gil + _MUTEX


def read_gil(read: Read, gil: int) -> GilState | None:
    """Read the state of an interpreter lock.

    Args:
        read: Reads memory of the process.
        gil: The address of the lock.

    Returns:
        The state. None: nobody holds the lock, it changes, or its memory cannot be read.
    """
    before, after = (_state(read(gil, _GIL_BYTES)) for _ in range(2))
    return before if before == after else None


def _state(content: bytes) -> GilState | None:
    if len(content) < _GIL_BYTES or int_in(content, _LOCKED) != 1:
        return None
    # Whoever takes the lock sets `locked` before `last_holder`, and has the mutex meanwhile.
    if int_in(content, _MUTEX) != _UNLOCKED:
        return None
    return GilState(word_in(content, _LAST_HOLDER), word_in(content, _SWITCH_NUMBER))
