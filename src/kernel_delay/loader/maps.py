"""Maps: their sizes, their memory, and ring buffers, to be woken by or to read."""

import mmap
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_delay.loader._libbpf import ffi, lib
from kernel_delay.loader.base import Owned, bpf_error

if TYPE_CHECKING:
    from kernel_delay.cdata import Array, Null
    from kernel_delay.loader._libbpf import BpfMapPointer


class Map:
    """One map of an object."""

    def __init__(self, handle: "BpfMapPointer", name: str) -> None:
        """Made by BpfObject.map()."""
        self._handle = handle
        self.name = name

    @property
    def max_entries(self) -> int:
        """How many entries it holds; set before the object is loaded."""
        return lib.bpf_map__max_entries(self._handle)

    @max_entries.setter
    def max_entries(self, entries: int) -> None:
        result = lib.bpf_map__set_max_entries(self._handle, entries)
        if result:
            raise bpf_error(f"{self.name}: max_entries {entries}", -result)

    @property
    def fd(self) -> int:
        """Its descriptor, once the object is loaded."""
        return lib.bpf_map__fd(self._handle)

    @property
    def value_size(self) -> int:
        """Bytes of one value; set before the object is loaded."""
        return lib.bpf_map__value_size(self._handle)

    @value_size.setter
    def value_size(self, size: int) -> None:
        result = lib.bpf_map__set_value_size(self._handle, size)
        if result:
            raise bpf_error(f"{self.name}: value_size {size}", -result)

    def leave_out(self) -> None:
        """Have it not created: no program that is loaded may reach what uses it.

        Set before the object is loaded.
        """
        result = lib.bpf_map__set_autocreate(self._handle, False)
        if result:
            raise bpf_error(f"{self.name}: autocreate", -result)

    def put_array(self, place: int, content: memoryview, value_size: int) -> None:
        """Put an array of these values at a place of a BPF_MAP_TYPE_ARRAY_OF_MAPS.

        It takes the one's place that was there. The array is BPF_F_MMAPABLE and BPF_F_INNER_MAP,
        as the program declares it, and its values are of `value_size`, a multiple of 8.
        """
        entries = len(content) // value_size
        fd = lib.create_inner_array(self.name[:15].encode(), value_size, entries)
        if fd < 0:
            raise bpf_error(f"{self.name}: {entries} entries", -fd)
        try:
            pages = -(-len(content) // mmap.PAGESIZE)
            with mmap.mmap(fd, pages * mmap.PAGESIZE) as memory:
                memory[: len(content)] = content
            result = lib.put_inner_map(self.fd, place, fd)
            if result:
                raise bpf_error(f"{self.name}: an array", -result)
        finally:
            os.close(fd)

    def share(self, other: "Map") -> None:
        """Be the same map as `other`, of an object that is loaded; set before this one's is."""
        result = lib.bpf_map__reuse_fd(self._handle, other.fd)
        if result:
            raise bpf_error(f"sharing {self.name}", -result)

    def keys(self) -> list[bytes]:
        """Return the keys that are there; of those that come meanwhile some may be missing."""
        found: list[bytes] = []
        size = lib.bpf_map__key_size(self._handle)
        following = ffi.new("char[]", size)
        current: Null | Array[bytes] = ffi.NULL
        # A key that is deleted meanwhile sends the walk back to its beginning.
        for _ in range(2 * self.max_entries):
            if lib.bpf_map__get_next_key(self._handle, current, following, size):
                break
            found.append(bytes(ffi.buffer(following)))
            current = ffi.new("char[]", found[-1])
        return found

    def get(self, key: bytes) -> int:
        """Return the number that is a key's value."""
        value = ffi.new("uint64_t *")
        size = ffi.sizeof("uint64_t")
        result = lib.bpf_map__lookup_elem(self._handle, key, len(key), value, size, 0)
        if result:
            raise bpf_error(f"{self.name}: a value", -result)
        return value[0]

    def pop(self, key: bytes) -> int:
        """Delete a key; return the number that was its value."""
        value = self.get(key)
        result = lib.bpf_map__delete_elem(self._handle, key, len(key), 0)
        if result:
            raise bpf_error(f"{self.name}: a value", -result)
        return value

    def initial_values(self) -> int:
        """Return where the initial values of a global data section are in this process.

        They are copied to the kernel when the object is loaded.
        """
        size = ffi.new("size_t *")
        pointer = lib.bpf_map__initial_value(self._handle, size)
        if pointer == ffi.NULL:
            raise bpf_error(f"{self.name}: initial value")
        return int(ffi.cast("uintptr_t", pointer))

    def mmap(self, *, writable: bool = False) -> mmap.mmap:
        """Map the values of a BPF_F_MMAPABLE array, once loaded: each on the next 8 bytes.

        Raises a BpfError where that is refused.
        """
        size = (self.value_size + 7) // 8 * 8 * self.max_entries
        pages = -(-size // mmap.PAGESIZE)
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        try:
            return mmap.mmap(self.fd, pages * mmap.PAGESIZE, mmap.MAP_SHARED, access)
        except OSError as error:
            raise bpf_error(f"mapping {self.name}", error.errno) from error


class Notices:
    """A ring buffer map through which programs wake this process; what they say is not read."""

    def __init__(self, ring_map: Map) -> None:
        """Listen to a BPF_MAP_TYPE_RINGBUF."""
        handle = lib.open_notices(ring_map.fd)
        if handle == ffi.NULL:
            raise bpf_error(f"listening to {ring_map.name}")
        self._ring = Owned(handle, lib.ring_buffer__free)

    def fileno(self) -> int:
        """Return the descriptor to poll: it is readable when there are notices."""
        return lib.ring_buffer__epoll_fd(self._ring.handle)

    def clear(self) -> None:
        """Take away the notices that are there."""
        lib.ring_buffer__consume(self._ring.handle)

    def close(self) -> None:
        """Stop listening."""
        self._ring.close()


class Records:
    """A ring buffer map whose records are read here."""

    def __init__(self, ring_map: Map, largest: int) -> None:
        """Read a BPF_MAP_TYPE_RINGBUF whose records have at most `largest` bytes."""
        self._name, self._fd = ring_map.name, ring_map.fd
        handle = lib.record_reader_open(ring_map.fd, largest)
        if handle == ffi.NULL:
            raise bpf_error(f"reading {ring_map.name}")
        self._reader = Owned(handle, lib.record_reader_close)

    def fileno(self) -> int:
        """Return the descriptor to poll: it is readable when there are records."""
        return self._fd

    def take(self) -> Iterator[bytes]:
        """Take away the records that are there, up to about a mebibyte, and yield them."""
        batch = ffi.new("uint64_t **")
        length = lib.record_reader_take(self._reader.handle, batch)
        if length < 0:
            raise bpf_error(f"reading {self._name}", -length)
        data = bytes(ffi.buffer(batch[0], length))
        at = 0
        while at < length:
            size = int.from_bytes(data[at : at + 8], sys.byteorder)
            at += 8
            yield data[at : at + size]
            at += (size + 7) // 8 * 8

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()
