"""A BPF object file: opened, set up, loaded, and closed.

The names are libbpf's (https://libbpf.readthedocs.io); what libbpf reports
with errno becomes a BpfError.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from kernel_delay.libbpf._libbpf import ffi, lib
from kernel_delay.libbpf.errors import bpf_error
from kernel_delay.libbpf.maps import Map
from kernel_delay.libbpf.owned import Owned
from kernel_delay.libbpf.programs import Program


class BpfObject:
    """A BPF object file. Used as a context manager, it is closed at the end."""

    def __init__(self, path: Path) -> None:
        """Open and read the file; nothing is in the kernel yet.

        A type that the kernel lacks is looked for in its modules, which takes time, and
        CAP_SYS_ADMIN (kernel/bpf/syscall.c:bpf_obj_get_next_id(), 5.14 to 6.18; libbpf does
        without it from 1.2 on).
        """
        handle = lib.bpf_object__open_file(os.fsencode(path), ffi.NULL)
        if handle == ffi.NULL:
            raise bpf_error(f"opening {path.name}")
        self._object = Owned(handle, lib.bpf_object__close)
        self._name = path.name

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def map(self, name: str) -> Map:
        """Return the map of that name."""
        handle = lib.bpf_object__find_map_by_name(self._object.handle, name.encode())
        if handle == ffi.NULL:
            raise bpf_error(f"map {name}")
        return Map(handle, name)

    def program(self, name: str) -> Program:
        """Return the program of that name."""
        handle = lib.bpf_object__find_program_by_name(self._object.handle, name.encode())
        if handle == ffi.NULL:
            raise bpf_error(f"program {name}")
        return Program(handle)

    def programs(self) -> Iterator[Program]:
        """Yield all programs."""
        handle = lib.bpf_object__next_program(self._object.handle, ffi.NULL)
        while handle != ffi.NULL:
            yield Program(handle)
            handle = lib.bpf_object__next_program(self._object.handle, handle)

    def load(self) -> None:
        """Create the maps and load the programs."""
        result = lib.load_object(self._object.handle)
        if result:
            raise bpf_error(f"loading {self._name}", -result)

    def close(self) -> None:
        """Release everything; links are closed apart and earlier."""
        self._object.close()
