"""What all of the binding has: its errors and its log, and handles that are freed once."""

import errno as errnos
import os
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kernel_delay.loader._libbpf import ffi, lib

TEXT_BYTES = 128


class BpfError(OSError):
    """The kernel or libbpf refused; `errno` and `strerror` say how, `filename` what was asked."""

    filename: str

    @property
    def exit_code(self) -> int:
        """The exit status where nothing handles it."""
        is_denied = self.errno in (errnos.EPERM, errnos.EACCES)
        return os.EX_NOPERM if is_denied else os.EX_UNAVAILABLE


def bpf_error(what: str, errno: int | None = None) -> BpfError:
    """Return the error of the call just made, or the one given, about `what`."""
    number = ffi.errno if errno is None else errno
    # libbpf has errors of its own from 4000 on: enum libbpf_errno.
    text = ffi.new("char[]", TEXT_BYTES)
    lib.libbpf_strerror(number, text, TEXT_BYTES)
    return BpfError(number, ffi.string(text).decode(), what)


LOG_SIZE = 64 * 1024


def start_log(shown_level: int) -> None:
    """Keep libbpf's log from now on for take_log(), and print to stderr what is wanted.

    `shown_level` -1 prints nothing, 0 warnings, 1 information, 2 debugging.
    """
    lib.libbpf_log_start(shown_level)


def take_log() -> str:
    """Return what libbpf said since the last call (its warnings and information)."""
    text = ffi.new("char[]", LOG_SIZE)
    length = lib.libbpf_log_take(text, LOG_SIZE)
    return bytes(ffi.buffer(text, length)).decode(errors="replace")


T = TypeVar("T")


class Owned(Generic[T]):
    """A handle of libbpf's, from its making to close()."""

    def __init__(self, handle: T, free: Callable[[T], object]) -> None:
        """Own `handle`, which `free` frees."""
        self._handle: T | None = handle
        self._free = free

    @property
    def handle(self) -> T:
        """The handle; ValueError after close(), as of a closed file."""
        if self._handle is None:
            raise ValueError("libbpf's handle is closed")
        return self._handle

    def close(self) -> None:
        """Free it, unless that was done."""
        if self._handle is not None:
            self._free(self._handle)
            self._handle = None


def strings(texts: Iterable[str]) -> bytes:
    """Return these as C takes them, one behind the other."""
    return b"".join(text.encode() + b"\0" for text in texts)
