"""What an ELF file says of itself: where it is loaded, which build it is, its debug files."""

import mmap
import os
import struct
from itertools import islice

from msgspec import Struct

from kernel_delay.elf.headers import (
    PT_NOTE,
    SHF_WRITE,
    SHT_NOBITS,
    Headers,
    Read,
    Segment,
    read_headers,
    reader,
)

NT_GNU_BUILD_ID = 3

FILE_BYTES = 16 << 30
"""A larger file is no program and no debug file; browsers' debug files have some 4 GiB."""

MAX_NOTES = 16
"""Segments and sections of notes that are looked into for the build-id."""

LIBDW_NOTES_BYTES = 1 << 20
"""libdw goes through all notes of a segment, for its build-id."""

NAME_BYTES = 16 << 10
"""The longest name of a debug file that is read."""


CLAIMED_BYTES = 16 << 20
"""What sections may have beyond twice what is in the file, as holes of it or several times."""

MAX_EXTENTS = 65_536
"""Of a file's data between holes: in more it is not looked for."""

BLOCK_BYTES = 512
"""Of st_blocks: stat(2)."""


class DebugLink(Struct, frozen=True):
    """The .gnu_debuglink section: a separate debug file's name and CRC-32."""

    name: str
    crc: int


class AltLink(Struct, frozen=True):
    """The .gnu_debugaltlink section: the file that dwz(1) shares among debug files."""

    name: str
    build_id: bytes


class Elf(Struct, frozen=True):
    """An ELF file. `build_id` is that of its NT_GNU_BUILD_ID note."""

    machine: int
    segments: tuple[Segment, ...]
    build_id: bytes | None
    debug_link: DebugLink | None

    def bias(self, start: int, offset: int) -> int | None:
        """Memory address minus the file's own, for code mapped at `start` from file `offset`.

        None when no executable segment has bytes there.
        """
        for segment in self.segments:
            end = segment.offset + segment.size
            # A mapping begins at the page that holds the segment's first byte.
            first = segment.offset - segment.offset % mmap.PAGESIZE
            if segment.executable and first <= offset < end:
                return start - offset + segment.offset - segment.address
        return None

    def file_offset(self, address: int) -> int | None:
        """Where in the file the byte is that is loaded at `address` (before any bias)."""
        for segment in self.segments:
            if segment.address <= address < segment.address + segment.size:
                return address - segment.address + segment.offset
        return None


def read_elf(fd: int) -> Elf | None:
    """Read an open file; None when it is not an ELF file, or is_excessive(). `fd` stays open."""
    return None if is_excessive(fd) else _read(reader(fd))


def is_excessive(fd: int) -> bool:
    """Whether an open file is larger than a program, or claims to have by far more than it has.

    libdw goes through whole symbol tables, or copies them. Tables of 3 GiB can be a hole in a file
    that takes 4 KiB, or 65,000 sections of the same bytes. Linkers write neither. What is writable
    may be large and empty: libdw does not read it.
    """
    size = os.fstat(fd).st_size
    if size > FILE_BYTES:
        return True
    headers = read_headers(reader(fd))
    claimed = _claimed(headers, size) if headers else 0
    return not _has_data(fd, (claimed - CLAIMED_BYTES) // 2)


def _claimed(headers: Headers, size: int) -> int:
    """How many bytes of a file of that size its sections have; its segments, if it has none."""
    parts = [
        (section.offset, section.size)
        for section in headers.sections
        if section.kind != SHT_NOBITS and not section.flags & SHF_WRITE
    ] or [(segment.offset, segment.size) for segment in headers.loaded() if not segment.writable]
    return sum(min(part, max(0, size - offset)) for offset, part in parts)


def _has_data(fd: int, least: int) -> bool:
    """Whether an open file has so many bytes that are in no hole."""
    # A file system that compresses has fewer blocks, but no holes.
    if os.fstat(fd).st_blocks * BLOCK_BYTES >= least:
        return True
    end = 0
    for _ in range(MAX_EXTENTS):
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError:  # ENXIO: there is no more; lseek(2)
            return False
        least -= end - start
        if least <= 0:
            return True
    return False


def read_elf_image(image: bytes) -> Elf | None:
    """Read the first bytes of an ELF file, which hold its program headers and its notes."""
    return _read(lambda offset, size: image[offset : offset + size])


def read_alt_link(fd: int) -> AltLink | None:
    """Read the .gnu_debugaltlink of an open file: a name, a NUL, and a build-id.

    libdw can too, but would first read and decompress all its DWARF.
    """
    headers = read_headers(reader(fd))
    content = headers.content(b".gnu_debugaltlink", NAME_BYTES) if headers else b""
    name, _, build_id = content.partition(b"\0")
    return AltLink(os.fsdecode(name), build_id) if build_id else None


def _read(read: Read) -> Elf | None:
    headers = read_headers(read)
    if headers is None or any(
        segment.kind == PT_NOTE and segment.size > LIBDW_NOTES_BYTES for segment in headers.segments
    ):
        return None
    return Elf(headers.machine, headers.loaded(), _build_id(headers), _debug_link(headers))


def _build_id(headers: Headers) -> bytes | None:
    for content, align in islice(headers.notes(), MAX_NOTES):
        at = 0
        while at + 12 <= len(content):
            name_size, size, kind = struct.unpack_from(headers.order + "III", content, at)
            start = at + 12 + name_size
            start += -start % align
            if kind == NT_GNU_BUILD_ID and size and content[at + 12 : at + 16] == b"GNU\0":
                build_id = content[start : start + size]
                return build_id if name_size == 4 and len(build_id) == size else None
            at = start + size + -size % align
    return None


def _debug_link(headers: Headers) -> DebugLink | None:
    content = headers.content(b".gnu_debuglink", NAME_BYTES)
    name, end, _ = content.partition(b"\0")
    at = len(name) + 1 + -(len(name) + 1) % 4
    if not name or not end or len(content) < at + 4:
        return None
    return DebugLink(os.fsdecode(name), struct.unpack_from(headers.order + "I", content, at)[0])
