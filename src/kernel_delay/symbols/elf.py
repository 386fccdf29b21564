"""What an ELF file says of itself: where it is loaded, which build it is, its debug files."""

import mmap
from typing import Any

from msgspec import Struct

from kernel_delay.symbols._libdw import ffi, lib

GO_TABLES = (b".gopclntab", b".data.rel.ro.gopclntab")
GO_TABLE_MAX = 256 << 20
GO_TEXT_START = 24
"""Where in the table the address of the first function is."""

RELA_SIZE = 24


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


def read_elf(fd: int) -> Elf | None:
    """Read an open file; None when it is not an ELF file. `fd` stays open."""
    lib.elf_version(lib.EV_CURRENT)
    return _read(lib.elf_begin(fd, lib.ELF_C_READ, ffi.NULL))


def read_elf_image(image: bytes) -> Elf | None:
    """Read the first bytes of an ELF file, which hold its program headers and its notes."""
    lib.elf_version(lib.EV_CURRENT)
    buffer = ffi.new("char[]", image)
    return _read(lib.elf_memory(buffer, len(image)))


def read_alt_link(fd: int) -> AltLink | None:
    """Read the .gnu_debugaltlink of an open file: a name, a NUL, and a build-id.

    libdw can too, but would first read and decompress all its DWARF.
    """
    lib.elf_version(lib.EV_CURRENT)
    elf = lib.elf_begin(fd, lib.ELF_C_READ, ffi.NULL)
    try:
        content = _section(elf, b".gnu_debugaltlink")
    finally:
        lib.elf_end(elf)
    name, _, build_id = content.partition(b"\0")
    return AltLink(name.decode(errors="surrogateescape"), build_id) if build_id else None


def read_go_table(fd: int) -> tuple[bytes, int] | None:
    """Read .gopclntab, and the address in the file that its offsets are above.

    The table has that address itself, but for position-independent files,
    where a relocation puts it there, and from Go 1.26 on, where it is .text's.
    """
    lib.elf_version(lib.EV_CURRENT)
    elf = lib.elf_begin(fd, lib.ELF_C_READ, ffi.NULL)
    try:
        for name in GO_TABLES:
            found = _find_section(elf, name)
            if not found or not 0 < found[0].sh_size <= GO_TABLE_MAX:
                continue
            table = _content(found[1])
            word = found[0].sh_addr + GO_TEXT_START
            text_section = _find_section(elf, b".text")
            start = text_section[0].sh_addr if text_section else 0
            return table, _relocated(_section(elf, b".rela.dyn"), word) or start
        return None
    finally:
        lib.elf_end(elf)


def _relocated(relocations: bytes, address: int) -> int | None:
    """Return the addend of the relocation of the word at an address: Elf64_Rela in elf(5)."""
    at = relocations.find(address.to_bytes(8, "little"))
    if at < 0 or at % RELA_SIZE:
        return None
    return int.from_bytes(relocations[at + 16 : at + RELA_SIZE], "little")


def text(string: Any) -> str:
    """Turn a C string of another program into text; bytes that are no UTF-8 print as \\xNN."""
    return bytes(ffi.string(string)).decode(errors="backslashreplace")


def _read(elf: Any) -> Elf | None:
    try:
        header = lib.gelf_getehdr(elf, ffi.new("GElf_Ehdr *"))
        if not header:
            return None
        return Elf(header.e_machine, _segments(elf), _build_id(elf), _debug_link(elf))
    finally:
        lib.elf_end(elf)


def _segments(elf: Any) -> tuple[Segment, ...]:
    count = ffi.new("size_t *")
    header = ffi.new("GElf_Phdr *")
    segments = []
    if lib.elf_getphdrnum(elf, count):
        return ()
    for i in range(count[0]):
        if lib.gelf_getphdr(elf, i, header) and header.p_type == lib.PT_LOAD:
            executable = bool(header.p_flags & lib.PF_X)
            segments.append(Segment(header.p_offset, header.p_vaddr, header.p_filesz, executable))
    return tuple(segments)


def _build_id(elf: Any) -> bytes | None:
    found = ffi.new("void **")
    length = lib.dwelf_elf_gnu_build_id(elf, found)
    return bytes(ffi.buffer(found[0], length)) if length > 0 else None


def _debug_link(elf: Any) -> DebugLink | None:
    crc = ffi.new("GElf_Word *")
    name = lib.dwelf_elf_gnu_debuglink(elf, crc)
    return DebugLink(text(name), crc[0]) if name else None


def _section(elf: Any, name: bytes) -> bytes:
    found = _find_section(elf, name)
    return _content(found[1]) if found else b""


def _content(section: Any) -> bytes:
    data = lib.elf_rawdata(section, ffi.NULL)
    return bytes(ffi.buffer(data.d_buf, data.d_size)) if data and data.d_buf else b""


def _find_section(elf: Any, name: bytes) -> tuple[Any, Any] | None:
    """Find a section by its name: its header, and itself."""
    names = ffi.new("size_t *")
    header = ffi.new("GElf_Shdr *")
    section = ffi.NULL
    if lib.elf_getshdrstrndx(elf, names):
        return None
    while section := lib.elf_nextscn(elf, section):
        if not lib.gelf_getshdr(section, header):
            continue
        found = lib.elf_strptr(elf, names[0], header.sh_name)
        if found and ffi.string(found) == name:
            return header, section
    return None
