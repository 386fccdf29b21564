"""What an ELF file says of itself: where it is loaded, which build it is, its debug files.

The file is another program's and may be anything: only so much is read of it,
whatever it claims. libdw, which later reads more, is given what passed here.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from kernel_delay.symbols.bounds import FILE_BYTES, Bounds

MAGIC = b"\x7fELF"
BYTE_ORDERS = {1: "<", 2: ">"}
PT_LOAD, PT_NOTE, PF_X, SHT_NOTE, SHT_NOBITS = 1, 4, 1, 7, 8
PN_XNUM, SHN_XINDEX = 0xFFFF, 0xFFFF
NT_GNU_BUILD_ID = 3

MAX_HEADERS = 65_536
"""Of either kind; linkers write some dozens."""

NAMES_BYTES = 4 << 20
"""The sections' names."""

NOTES_BYTES = 64 << 10
"""Of one segment or section of notes; linkers write some hundreds."""

MAX_NOTES = 16
"""Segments and sections of notes that are looked into for the build-id."""

LIBDW_NOTES_BYTES = 1 << 20
"""libdw goes through all notes of a segment, for its build-id."""

NAME_BYTES = 16 << 10
"""The longest name of a debug file that is read."""

GO_TABLES = (b".gopclntab", b".data.rel.ro.gopclntab")
GO_TEXT_START = 24
"""Where in the table the address of the first function is."""

RELA_SIZE = 24

RELOCATIONS_BYTES = 64 << 20
"""A larger .rela.dyn is not looked into; that of a Go program has some per cent of its size."""


class Segment(Struct, frozen=True):
    """A PT_LOAD program header: file bytes from `offset` are loaded at `address` plus a bias."""

    offset: int
    address: int
    file_size: int
    executable: bool


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
            end = segment.offset + segment.file_size
            # A mapping begins at the page that holds the segment's first byte.
            first = segment.offset - segment.offset % mmap.PAGESIZE
            if segment.executable and first <= offset < end:
                return start - offset + segment.offset - segment.address
        return None

    def file_offset(self, address: int) -> int | None:
        """Where in the file the byte is that is loaded at `address` (before any bias)."""
        for segment in self.segments:
            if segment.address <= address < segment.address + segment.file_size:
                return address - segment.address + segment.offset
        return None


Read = Callable[[int, int], bytes]
"""Returns the bytes from an offset on, as many as asked for or as there are."""


def read_elf(fd: int) -> Elf | None:
    """Read an open file; None when it is not an ELF file, or too large. `fd` stays open."""
    return _read(_reader(fd)) if os.fstat(fd).st_size <= FILE_BYTES else None


def read_elf_image(image: bytes) -> Elf | None:
    """Read the first bytes of an ELF file, which hold its program headers and its notes."""
    return _read(lambda offset, size: image[offset : offset + size])


def read_alt_link(fd: int) -> AltLink | None:
    """Read the .gnu_debugaltlink of an open file: a name, a NUL, and a build-id.

    libdw can too, but would first read and decompress all its DWARF.
    """
    headers = _headers(_reader(fd))
    content = headers.content(b".gnu_debugaltlink", NAME_BYTES) if headers else b""
    name, _, build_id = content.partition(b"\0")
    return AltLink(os.fsdecode(name), build_id) if build_id else None


def read_go_table(fd: int, path: str, bounds: Bounds) -> tuple[bytes, int] | None:
    """Read .gopclntab, and the address in the file that its offsets are above.

    None where there is no such table, or `bounds` doesn't allow for it. The
    table has that address itself, but for position-independent files, where a
    relocation puts it there, and from Go 1.26 on, where it is .text's.
    """
    headers = _headers(_reader(fd))
    if headers is None:
        return None
    for name in GO_TABLES:
        section = headers.section(name)
        if section is None or not section.size:
            continue
        if not bounds.may_keep_table(section.size):
            bounds.pass_over(f"{path} has no function names: its .gopclntab is too large")
            return None
        text_section = headers.section(b".text")
        start = text_section.address if text_section else 0
        relocations = headers.content(b".rela.dyn", RELOCATIONS_BYTES)
        told = _relocated(relocations, section.address + GO_TEXT_START)
        return headers.read(section.offset, section.size), told or start
    return None


def _relocated(relocations: bytes, address: int) -> int | None:
    """Return the addend of the relocation of the word at an address: Elf64_Rela in elf(5)."""
    at = relocations.find((address & (1 << 64) - 1).to_bytes(8, "little"))
    if at < 0 or at % RELA_SIZE:
        return None
    return int.from_bytes(relocations[at + 16 : at + RELA_SIZE], "little")


class _Segment(Struct, frozen=True):
    kind: int
    flags: int
    offset: int
    address: int
    size: int
    align: int


class _Section(Struct, frozen=True):
    name: int
    kind: int
    address: int
    offset: int
    size: int
    link: int
    info: int


class _Form(Struct, frozen=True):
    """How the headers of one class lie in a file, the fields that are needed here: elf(5).

    `header` is e_machine, e_phoff, e_shoff, sizes and counts; `section` as in
    _Section; `segment` in the order of `segment_fields`.
    """

    header: str
    segment: str
    segment_fields: tuple[str, ...]
    section: str


ELF32 = _Form(
    header="16x2xH8xII4x2xHHHHH",
    segment="III4xI4xII",
    segment_fields=("kind", "offset", "address", "size", "flags", "align"),
    section="II4xIIIII8x",
)
ELF64 = _Form(
    header="16x2xH12xQQ4x2xHHHHH",
    segment="IIQQ8xQ8xQ",
    segment_fields=("kind", "flags", "offset", "address", "size", "align"),
    section="II8xQQQII16x",
)
FORMS = {1: ELF32, 2: ELF64}
"""By e_ident[EI_CLASS]."""


class _Headers(Struct, frozen=True):
    """The headers of an ELF file, of which `read` reads."""

    read: Read
    order: str
    machine: int
    segments: tuple[_Segment, ...]
    sections: tuple[_Section, ...]
    names: bytes

    def section(self, name: bytes) -> _Section | None:
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


def _reader(fd: int) -> Read:
    def read(offset: int, size: int) -> bytes:
        try:
            return os.pread(fd, size, offset)
        except (OSError, OverflowError):  # an offset of 64 bits
            return b""

    return read


def _read(read: Read) -> Elf | None:
    headers = _headers(read)
    if headers is None or any(
        segment.kind == PT_NOTE and segment.size > LIBDW_NOTES_BYTES for segment in headers.segments
    ):
        return None
    segments = tuple(
        Segment(segment.offset, segment.address, segment.size, bool(segment.flags & PF_X))
        for segment in headers.segments
        if segment.kind == PT_LOAD
    )
    return Elf(headers.machine, segments, _build_id(headers), _debug_link(headers))


def _headers(read: Read) -> _Headers | None:
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
        many = _Section(*first[0])
        phnum = many.info if phnum == PN_XNUM else phnum
        shnum = shnum or many.size
        names_at = many.link if names_at == SHN_XINDEX else names_at
    if phnum > MAX_HEADERS or shnum > MAX_HEADERS:
        return None
    segments = tuple(
        _Segment(**dict(zip(form.segment_fields, fields, strict=True)))
        for fields in _table(read, order + form.segment, phoff, phsize, phnum)
    )
    table = _table(read, section_form, shoff, shsize, shnum) if shoff else ()
    sections = tuple(_Section(*fields) for fields in table)
    names = b""
    if names_at < len(sections):
        names = read(sections[names_at].offset, min(sections[names_at].size, NAMES_BYTES))
    return _Headers(read, order, machine, segments, sections, names)


def _table(
    read: Read, form: str, offset: int, size: int, count: int
) -> tuple[tuple[int, ...], ...]:
    """Read a table of headers; empty where it is not whole, or of another size."""
    if size != struct.calcsize(form):
        return ()
    content = read(offset, size * count)
    return tuple(struct.iter_unpack(form, content)) if len(content) == size * count else ()


def _build_id(headers: _Headers) -> bytes | None:
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


def _debug_link(headers: _Headers) -> DebugLink | None:
    content = headers.content(b".gnu_debuglink", NAME_BYTES)
    name, end, _ = content.partition(b"\0")
    at = len(name) + 1 + -(len(name) + 1) % 4
    if not name or not end or len(content) < at + 4:
        return None
    return DebugLink(os.fsdecode(name), struct.unpack_from(headers.order + "I", content, at)[0])
