"""Reads of /proc that take the lock of a process's address space.

Others may have it for as long as they like: whoever reads memory whose FUSE server does not answer
has it to read, and keeps out a thread that maps memory and all who come later. Only SIGKILL ends a
wait for it: mmap_read_lock_killable() in fs/proc/base.c and task_mmu.c, 5.14 to 6.18. So a thread
waits, and it ends with this process.
"""

# What `threading` is made of: most commands do without that.
import _thread
import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from kernel_delay.host.proc_text import read_bytes

WAIT_S = 2.0
"""How long such reads are waited for in all, and each for LEAST_WAIT_S."""

LEAST_WAIT_S = 0.01

MOST_WAITING = 16
"""Threads that wait at the same time and are not waited for."""

T = TypeVar("T")


class _Read:
    """A read by a thread of its own."""

    def __init__(self, read: Callable[[], None]) -> None:
        """Begin it. RuntimeError: there can't be another thread."""
        # Recordings are read without extensions.
        from kernel_delay.host._files import lib

        self._read = read
        self._tid = 0
        self._error: Exception | None = None
        self._is_done = _thread.allocate_lock()
        self._is_done.acquire()
        lib.use_one_arena()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        self._tid = _thread.get_native_id()
        try:
            self._read()
        except Exception as error:
            self._error = error
        finally:
            self._is_done.release()

    def wait(self, wait_s: float) -> bool:
        """Return whether it ends; False if it waits for a lock after that time.

        A thread that has no CPU waits for nobody.
        """
        while not self._is_done.acquire(timeout=wait_s):
            if self._is_blocked():
                return False
        self._is_done.release()
        return True

    def _is_blocked(self) -> bool:
        with suppress(OSError):
            stat = read_bytes(f"/proc/self/task/{self._tid}/stat")
            return stat.rpartition(b")")[2].split()[0] == b"D"
        return False

    def check(self) -> None:
        """Raise the error of the read, if there was one."""
        if self._error is not None:
            raise self._error


class _Waiting:
    """The reads that are not waited for any more, and how long others may still be."""

    def __init__(self) -> None:
        self.reads: list[_Read] = []
        self.left_s = WAIT_S


_WAITING = _Waiting()


def read_in_time(read: Callable[[], T]) -> T:
    """Return what `read` does, which reads of a process's address space.

    Raises what `read` does, and TimeoutError where the lock can't be had in time.
    """
    _WAITING.reads = [each for each in _WAITING.reads if not each.wait(0)]
    if len(_WAITING.reads) >= MOST_WAITING:
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    found: list[T] = []
    try:
        begun = _Read(lambda: found.append(read()))
    except RuntimeError:
        return read()
    started_s = time.monotonic()
    if begun.wait(max(_WAITING.left_s, LEAST_WAIT_S)):
        begun.check()
        return found[0]
    _WAITING.left_s -= time.monotonic() - started_s
    _WAITING.reads.append(begun)
    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
