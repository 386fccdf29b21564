"""What libbpf made, and is to free once."""

from collections.abc import Callable
from typing import Generic, TypeVar

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
