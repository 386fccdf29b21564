"""The headers of an ELF file, read by its rules and no further than these bounds.

The file is another program's and may be anything: only so much is read of it,
whatever it claims. libdw, which later reads more, is given what passed here.
"""

import os
import struct
from collections.abc import Callable, Iterator
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
