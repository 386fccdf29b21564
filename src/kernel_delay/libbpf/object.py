"""A BPF object file: opened, set up, loaded, attached, and closed.

The names are libbpf's (https://libbpf.readthedocs.io); what libbpf reports
with errno becomes a BpfError.
"""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernel_delay.libbpf._libbpf import ffi, lib

LOG_SIZE = 64 * 1024


class BpfError(OSError):
    """The kernel or libbpf refused; `errno` and `strerror` say how, `filename` what was asked."""


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


def _error(what: str, errno: int | None = None) -> BpfError:
    number = ffi.errno if errno is None else errno
    return BpfError(number, os.strerror(number), what)


class Map:
    """One map of an object."""

    def __init__(self, handle: Any, name: str) -> None:
        """Made by BpfObject.map()."""
        self._handle = handle
        self.name = name

    @property
    def max_entries(self) -> int:
        """How many entries it holds; set before the object is loaded."""
        return int(lib.bpf_map__max_entries(self._handle))

    @max_entries.setter
    def max_entries(self, entries: int) -> None:
        result = lib.bpf_map__set_max_entries(self._handle, entries)
        if result:
            raise _error(f"{self.name}: max_entries {entries}", -result)

    @property
    def value_size(self) -> int:
        """Bytes of one value."""
        return int(lib.bpf_map__value_size(self._handle))

    def initial_values(self) -> int:
        """Return where the initial values of a global data section are in this process.

        They are copied to the kernel when the object is loaded.
        """
        size = ffi.new("size_t *")
        pointer = lib.bpf_map__initial_value(self._handle, size)
        if pointer == ffi.NULL:
            raise _error(f"{self.name}: initial value")
        return int(ffi.cast("uintptr_t", pointer))

    def mmap(self, *, writable: bool = False) -> mmap.mmap:
        """Map the values of a BPF_F_MMAPABLE array, once loaded: each on the next 8 bytes."""
        size = (self.value_size + 7) // 8 * 8 * self.max_entries
        pages = -(-size // mmap.PAGESIZE)
        fd = lib.bpf_map__fd(self._handle)
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        return mmap.mmap(fd, pages * mmap.PAGESIZE, mmap.MAP_SHARED, access)


class Link:
    """A program's attachment, until close()."""

    def __init__(self, handle: Any) -> None:
        """Made by Program.attach()."""
        self._handle = handle

    @property
    def fd(self) -> int:
        """The link's file descriptor, which close() closes."""
        return int(lib.bpf_link__fd(self._handle))

    def close(self) -> None:
        """Detach the program."""
        if self._handle is not None:
            lib.bpf_link__destroy(self._handle)
            self._handle = None


class Program:
    """One program of an object."""

    def __init__(self, handle: Any) -> None:
        """Made by BpfObject.programs() and BpfObject.program()."""
        self._handle = handle
        self.name = ffi.string(lib.bpf_program__name(handle)).decode()

    @property
    def autoload(self) -> bool:
        """Whether loading the object loads this program."""
        return bool(lib.bpf_program__autoload(self._handle))

    @autoload.setter
    def autoload(self, autoload: bool) -> None:
        lib.bpf_program__set_autoload(self._handle, autoload)

    def attach(self) -> Link:
        """Attach to what the program's section names."""
        link = lib.bpf_program__attach(self._handle)
        if link == ffi.NULL:
            raise _error(f"attaching {self.name}")
        return Link(link)

    def iterate(self) -> bytes:
        """Run an iterator program over all that it iterates, and return what it wrote."""
        link = self.attach()
        try:
            fd = lib.bpf_iter_create(link.fd)
            if fd < 0:
                raise _error(f"iterating {self.name}", -fd)
            with open(fd, "rb", buffering=0) as output:
                return output.readall()
        finally:
            link.close()

    def recursion_misses(self) -> int:
        """How often the program could not run since it was already running on that CPU.

        struct bpf_prog_info in include/uapi/linux/bpf.h; always 0 before 5.12.
        """
        info = ffi.new("struct bpf_prog_info *")
        length = ffi.new("uint32_t *", ffi.sizeof("struct bpf_prog_info"))
        result = lib.bpf_obj_get_info_by_fd(lib.bpf_program__fd(self._handle), info, length)
        if result:
            raise _error(f"{self.name}: information", -result)
        return int(info.recursion_misses)


class BpfObject:
    """A BPF object file. Used as a context manager, it is closed at the end."""

    def __init__(self, path: Path) -> None:
        """Open and read the file; nothing is in the kernel yet."""
        self._handle = lib.bpf_object__open(os.fsencode(path))
        if self._handle == ffi.NULL:
            raise _error(f"opening {path.name}")
        self._name = path.name

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def map(self, name: str) -> Map:
        """Return the map of that name."""
        handle = lib.bpf_object__find_map_by_name(self._handle, name.encode())
        if handle == ffi.NULL:
            raise _error(f"map {name}")
        return Map(handle, name)

    def program(self, name: str) -> Program:
        """Return the program of that name."""
        handle = lib.bpf_object__find_program_by_name(self._handle, name.encode())
        if handle == ffi.NULL:
            raise _error(f"program {name}")
        return Program(handle)

    def programs(self) -> Iterator[Program]:
        """Yield all programs."""
        handle = lib.bpf_object__next_program(self._handle, ffi.NULL)
        while handle != ffi.NULL:
            yield Program(handle)
            handle = lib.bpf_object__next_program(self._handle, handle)

    def load(self) -> None:
        """Create the maps and load the programs."""
        result = lib.bpf_object__load(self._handle)
        if result:
            raise _error(f"loading {self._name}", -result)

    def close(self) -> None:
        """Release everything; links are closed apart and earlier."""
        if self._handle is not None:
            lib.bpf_object__close(self._handle)
            self._handle = None
