"""USDT probes of an ELF file, from its `.note.stapsdt` section.

One note a place in the code; a probe that the compiler inlined has several. A
note is an ELF note (gABI, "Note Section") of owner `stapsdt` and type 3 whose
descriptor is three addresses — the probe's, the base's, the semaphore's — and
three strings: provider, name, arguments (systemtap wiki,
UserSpaceProbeImplementation; <sys/sdt.h>, systemtap 4.8).
"""

from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from kernel_delay.probes.arguments import Argument, parse_arguments
from kernel_delay.probes.object_layout import ObjectLayout, read_object_layout

_OWNER = b"stapsdt\0"
_TYPE = 3

_MAX_ARGUMENTS_CHARACTERS = 1024
"""Twelve arguments, the most <sys/sdt.h> can write, take some 400."""


class UsdtProbe(Struct, frozen=True):
    """One place of one probe.

    Addresses are those that the file's own headers use; offsets are from its
    start. The semaphore is None for a probe that has none.
    """

    provider: str
    name: str
    address: int
    file_offset: int
    semaphore_address: int | None
    semaphore_offset: int | None
    arguments: tuple[Argument, ...]


class UsdtProbes(Struct, frozen=True):
    """All probes of a file, in the order of its notes; and how many notes made no sense."""

    probes: tuple[UsdtProbe, ...]
    malformed_notes: int


def read_usdt_probes(file: BinaryIO, name: str) -> UsdtProbes:
    """Read the probes of the open ELF `file`; InputError, with `name`, if it is none."""
    return decode_notes(read_object_layout(file, name))


def decode_notes(layout: ObjectLayout) -> UsdtProbes:
    """Decode the notes that are in the object of that `layout`, whatever bytes they are."""
    probes = [_probe(descriptor, layout) for descriptor in _descriptors(layout)]
    sound = tuple(probe for probe in probes if probe is not None)
    return UsdtProbes(sound, malformed_notes=len(probes) - len(sound))


def _descriptors(layout: ObjectLayout) -> Iterator[bytes | None]:
    """Each stapsdt note's descriptor; None, once, where the section breaks off."""
    notes, order, at = layout.notes, layout.byte_order, 0
    while at < len(notes):
        owner_size, size, kind = (
            int.from_bytes(notes[at + field : at + field + 4], order) for field in (0, 4, 8)
        )
        owner_end = at + 12 + owner_size
        start = owner_end + -owner_size % 4
        if start + size > len(notes):
            yield None
            return
        if kind == _TYPE and notes[at + 12 : owner_end] == _OWNER:
            yield notes[start : start + size]
        at = start + size + -size % 4


def _probe(descriptor: bytes | None, layout: ObjectLayout) -> UsdtProbe | None:
    """The probe that a note describes; None if it describes none in this file."""
    width = layout.address_size
    if descriptor is None or len(descriptor) < 3 * width:
        return None
    address, base, semaphore = (
        int.from_bytes(descriptor[at : at + width], layout.byte_order)
        for at in range(0, 3 * width, width)
    )
    # prelink(8) moves the sections but leaves the notes: the base says how far.
    moved = layout.notes_base - base if layout.notes_base and base else 0
    semaphore_address = semaphore + moved if semaphore else None
    strings = descriptor[3 * width :].split(b"\0")
    file_offset = layout.file_offset(address + moved, executable=True)
    if file_offset is None or len(strings) < 3 or not strings[0] or not strings[1]:
        return None
    semaphore_offset = None
    if semaphore_address is not None:
        semaphore_offset = layout.file_offset(semaphore_address, executable=False)
        if semaphore_offset is None:
            return None
    provider, name, arguments = (text.decode(errors="backslashreplace") for text in strings[:3])
    return UsdtProbe(
        provider=provider,
        name=name,
        address=address + moved,
        file_offset=file_offset,
        semaphore_address=semaphore_address,
        semaphore_offset=semaphore_offset,
        arguments=parse_arguments(arguments[:_MAX_ARGUMENTS_CHARACTERS], layout.machine),
    )
