"""How an ELF object is laid out, as far as probes need it: its segments and its USDT notes."""

from typing import BinaryIO, Literal

from msgspec import Struct

from kernel_delay.errors import InputError
from kernel_delay.symbols.elf import SHT_NOTE, Headers, Segment, read_headers, stream_reader

_NOTES = b".note.stapsdt"
_BASE = b".stapsdt.base"

_MAX_NOTES_BYTES = 16 << 20
"""Some 200,000 probes."""

# e_machine in elf.h, of the machines whose arguments are known.
_MACHINES = {62: "X86_64", 183: "AARCH64"}


class ObjectLayout(Struct, frozen=True):
    """What a probe's place is computed from.

    `machine` is `X86_64` or `AARCH64`, or the number of another; `address_size`
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


def read_object_layout(file: BinaryIO, name: str) -> ObjectLayout:
    """Read it of the open `file`; InputError, with `name`, if that is no ELF file."""
    headers = read_headers(stream_reader(file))
    if headers is None:
        raise InputError(f"{name} is not an ELF file, or is a broken one")
    base = headers.section(_BASE)
    return ObjectLayout(
        machine=_MACHINES.get(headers.machine, str(headers.machine)),
        address_size=headers.bits // 8,
        byte_order="little" if headers.order == "<" else "big",
        segments=headers.loaded(),
        notes=_notes(headers),
        notes_base=base.address if base else None,
    )


def _notes(headers: Headers) -> bytes:
    # A file of debug information only has the section's header, without content.
    section = headers.section(_NOTES)
    is_note = section is not None and section.kind == SHT_NOTE
    return headers.content(_NOTES, _MAX_NOTES_BYTES) if is_note else b""
