"""The little of an ELF file that probes need: its segments and its USDT notes.

pyelftools reads the headers. The file is someone else's and may be anything,
so what the headers say is checked here before it is followed.
"""

from typing import BinaryIO, Literal

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection, Section
from msgspec import Struct

from kernel_delay.errors import InputError

_NOTES = ".note.stapsdt"
_BASE = ".stapsdt.base"

_MAX_SECTIONS = 65_536
"""More than any linker writes; the header's count can be of 64 bits."""

_MAX_NOTES_BYTES = 16 << 20
"""Some 200,000 probes."""


class Segment(Struct, frozen=True):
    """A part of the file that is loaded: PT_LOAD, without what is only in memory."""

    address: int
    offset: int
    size: int
    executable: bool
    writable: bool


class Elf(Struct, frozen=True):
    """What a probe's place is computed from.

    `machine` is e_machine without its prefix, as in `X86_64`; `address_size`
    is in bytes, 4 or 8. `notes` is the content of `.note.stapsdt`, empty where
    there is none, and `notes_base` the address of `.stapsdt.base`, None where
    there is none.
    """

    machine: str
    address_size: int
    byte_order: Literal["little", "big"]
    segments: tuple[Segment, ...]
    notes: bytes
    notes_base: int | None

    def file_offset(self, address: int, *, executable: bool) -> int | None:
        """Where in the file the byte at `address` is; None if not in it.

        A byte of code (`executable`) must be in an executable segment, one of
        data in a writable one: uprobes accept no other (kernel/events/uprobes.c,
        valid_vma() and valid_ref_ctr_vma(), 6.18).
        """
        for segment in self.segments:
            fits = segment.executable if executable else segment.writable
            if fits and segment.address <= address < segment.address + segment.size:
                return address - segment.address + segment.offset
        return None


def read_elf(file: BinaryIO, name: str) -> Elf:
    """Read what probes need of the open `file`; InputError, with `name`, if it is no ELF file."""
    try:
        return _read(file, name)
    except ELFError as error:
        raise InputError(f"{name} is not an ELF file, or is a broken one") from error
    # What pyelftools lets through: OverflowError for an offset of 64 bits, and the like.
    except (ArithmeticError, LookupError, ValueError) as error:
        raise InputError(f"{name} is a broken ELF file: {error}") from error


def _read(file: BinaryIO, name: str) -> Elf:
    elf = ELFFile(file)
    if elf.num_sections() > _MAX_SECTIONS:
        raise InputError(f"{name} is a broken ELF file: it claims {elf.num_sections()} sections")
    sections = {section.name: section for section in elf.iter_sections()}
    notes, base = sections.get(_NOTES), sections.get(_BASE)
    return Elf(
        machine=str(elf.header.e_machine).removeprefix("EM_"),
        address_size=elf.elfclass // 8,
        byte_order="little" if elf.little_endian else "big",
        segments=tuple(
            Segment(
                address=segment.header.p_vaddr,
                offset=segment.header.p_offset,
                size=segment.header.p_filesz,
                executable=bool(segment.header.p_flags & P_FLAGS.PF_X),
                writable=bool(segment.header.p_flags & P_FLAGS.PF_W),
            )
            for segment in elf.iter_segments("PT_LOAD")
        ),
        # A file of debug information only has the section's header, without content.
        notes=_content(file, notes) if isinstance(notes, NoteSection) else b"",
        notes_base=None if base is None else base.header.sh_addr,
    )


def _content(file: BinaryIO, section: Section) -> bytes:
    # Not section.data(): it believes the size, and reserves that much memory.
    file.seek(section.header.sh_offset)
    return file.read(min(section.header.sh_size, _MAX_NOTES_BYTES))
