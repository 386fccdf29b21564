"""ELF files: their headers, read by the rules and no further than bounds, and what these say.

The file is another program's and may be anything: only so much is read of it,
whatever it claims. libdw, which later reads more, is given what passed here.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, Literal

from msgspec import Struct

MAGIC = b"\x7fELF"
BYTE_ORDERS = {1: "<", 2: ">"}
PT_LOAD, PT_NOTE, PF_X, PF_W, SHT_NOTE, SHT_NOBITS, SHF_WRITE = 1, 4, 1, 2, 7, 8, 1
PN_XNUM, SHN_XINDEX = 0xFFFF, 0xFFFF

MAX_HEADERS = 65_536
"""Of either kind; linkers write some dozens."""

NAMES_BYTES = 4 << 20
"""The sections' names."""

NOTES_BYTES = 64 << 10
"""Of one segment or section of notes; linkers write some hundreds."""

Read = Callable[[int, int], bytes]
"""Returns the bytes from an offset on, as many as asked for or as there are."""


class Segment(Struct, frozen=True):
    """A PT_LOAD program header: `size` bytes from `offset` are loaded at `address` plus a bias."""

    offset: int
    address: int
    size: int
    executable: bool
    writable: bool = False


class SegmentHeader(Struct, frozen=True):
    """Of Elf32_Phdr or Elf64_Phdr, elf(5), what is needed here."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int
    align: int


class SectionHeader(Struct, frozen=True):
    """Of Elf32_Shdr or Elf64_Shdr, elf(5), what is needed here."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


class _Form(Struct, frozen=True):
    """How the headers of one class lie in a file, the fields that are needed here: elf(5).

    `header` is e_machine, e_phoff, e_shoff, sizes and counts; `section` as in
    SectionHeader; `segment` in the order of `segment_fields`.
    """

    header: str
    segment: str
    segment_fields: tuple[str, ...]
    section: str


ELF32 = _Form(
    header="16x2xH8xII4x2xHHHHH",
    segment="III4xI4xII",
    segment_fields=("kind", "offset", "address", "size", "flags", "align"),
    section="IIIIIIII8x",
)
ELF64 = _Form(
    header="16x2xH12xQQ4x2xHHHHH",
    segment="IIQQ8xQ8xQ",
    segment_fields=("kind", "flags", "offset", "address", "size", "align"),
    section="IIQQQQII16x",
)
FORMS = {1: ELF32, 2: ELF64}
"""By e_ident[EI_CLASS]."""


class Headers(Struct, frozen=True):
    """The headers of an ELF file, of which `read` reads."""

    read: Read
    order: str
    bits: Literal[32, 64]
    machine: int
    segments: tuple[SegmentHeader, ...]
    sections: tuple[SectionHeader, ...]
    names: bytes

    def loaded(self) -> tuple[Segment, ...]:
        """Return the segments that are loaded."""
        return tuple(
            Segment(
                segment.offset,
                segment.address,
                segment.size,
                bool(segment.flags & PF_X),
                bool(segment.flags & PF_W),
            )
            for segment in self.segments
            if segment.kind == PT_LOAD
        )

    def section(self, name: bytes) -> SectionHeader | None:
        """Return the first section of that name that has content in the file."""
        for section in self.sections:
            named = self.names.startswith(name + b"\0", section.name)
            if named and section.kind != SHT_NOBITS:
                return section
        return None

    def content(self, name: bytes, most: int) -> bytes:
        """Return the content of the first section of that name, `most` bytes of it."""
        section = self.section(name)
        return self.read(section.offset, min(section.size, most)) if section else b""

    def notes(self) -> Iterator[tuple[bytes, int]]:
        """Yield what holds notes, segments first, and its alignment."""
        for segment in self.segments:
            if segment.kind == PT_NOTE:
                content = self.read(segment.offset, min(segment.size, NOTES_BYTES))
                yield content, 8 if segment.align == 8 else 4
        for section in self.sections:
            if section.kind == SHT_NOTE:
                yield self.read(section.offset, min(section.size, NOTES_BYTES)), 4


def reader(fd: int) -> Read:
    """Return what reads an open file."""

    def read(offset: int, size: int) -> bytes:
        try:
            return os.pread(fd, size, offset)
        except (OSError, OverflowError):  # an offset of 64 bits
            return b""

    return read


def stream_reader(file: BinaryIO) -> Read:
    """Return what reads a file that may have no descriptor."""

    def read(offset: int, size: int) -> bytes:
        try:
            file.seek(offset)
            return file.read(size)
        except (OSError, OverflowError, ValueError):  # an offset of 64 bits
            return b""

    return read


def read_headers(read: Read) -> Headers | None:
    """Read the headers; None where there are none that can be followed."""
    ident = read(0, struct.calcsize("<" + ELF64.header))
    if not ident.startswith(MAGIC) or len(ident) < struct.calcsize("<" + ELF32.header):
        return None
    form, order = FORMS.get(ident[4]), BYTE_ORDERS.get(ident[5])
    if form is None or order is None or len(ident) < struct.calcsize(order + form.header):
        return None
    machine, phoff, shoff, phsize, phnum, shsize, shnum, names_at = struct.unpack_from(
        order + form.header, ident
    )
    section_form = order + form.section
    first = _table(read, section_form, shoff, shsize, 1) if shoff else ()
    if first:  # where a count has no room in the header: elf(5)
        many = SectionHeader(*first[0])
        phnum = many.info if phnum == PN_XNUM else phnum
        shnum = shnum or many.size
        names_at = many.link if names_at == SHN_XINDEX else names_at
    if phnum > MAX_HEADERS or shnum > MAX_HEADERS:
        return None
    segments = tuple(
        SegmentHeader(**dict(zip(form.segment_fields, fields, strict=True)))
        for fields in _table(read, order + form.segment, phoff, phsize, phnum)
    )
    table = _table(read, section_form, shoff, shsize, shnum) if shoff else ()
    sections = tuple(SectionHeader(*fields) for fields in table)
    names = b""
    if names_at < len(sections):
        names = read(sections[names_at].offset, min(sections[names_at].size, NAMES_BYTES))
    return Headers(read, order, 64 if form is ELF64 else 32, machine, segments, sections, names)


def _table(
    read: Read, form: str, offset: int, size: int, count: int
) -> tuple[tuple[int, ...], ...]:
    """Read a table of headers; empty where it is not whole, or of another size."""
    if size != struct.calcsize(form):
        return ()
    content = read(offset, size * count)
    return tuple(struct.iter_unpack(form, content)) if len(content) == size * count else ()


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
