"""The addresses of variables that an ELF file exports: its .dynsym, read within bounds."""

import struct
from collections.abc import Collection

from kernel_delay.symbols.elf import Headers, SectionHeader, read_headers, reader

SHT_DYNSYM = 11
STT_OBJECT = 1
SHN_UNDEF = 0

SYMBOLS_BYTES = 4 << 20
"""Of a table of symbols; that of libLLVM, one of the largest, has some 1 MiB."""

STRINGS_BYTES = 16 << 20
"""Of their names."""

_SYMBOL = "IBBHQQ"
"""Elf64_Sym of elf(5): name, info, other, section, value, size."""


def exported_variables(fd: int, names: Collection[bytes]) -> dict[bytes, int]:
    """Find variables that a 64-bit ELF file defines and exports.

    Args:
        fd: The open file. It stays open.
        names: The names of the variables.

    Returns:
        The addresses in the file of those that it has. Empty for any other file.
    """
    headers = read_headers(reader(fd))
    if headers is None or headers.bits != 64:
        return {}
    for section in headers.sections:
        if section.kind == SHT_DYNSYM and section.link < len(headers.sections):
            return _find(headers, section, headers.sections[section.link], names)
    return {}


def _find(
    headers: Headers, table: SectionHeader, strings: SectionHeader, names: Collection[bytes]
) -> dict[bytes, int]:
    texts = headers.read(strings.offset, min(strings.size, STRINGS_BYTES))
    ended = [name + b"\0" for name in names]
    # Few files have them: for the others this is all.
    if not any(name in texts for name in ended):
        return {}
    form = struct.Struct(headers.order + _SYMBOL)
    symbols = headers.read(table.offset, min(table.size, SYMBOLS_BYTES))
    found: dict[bytes, int] = {}
    for at, info, _, section, value, _ in form.iter_unpack(
        symbols[: len(symbols) // form.size * form.size]
    ):
        if info & 0xF != STT_OBJECT or section == SHN_UNDEF:
            continue
        for name in ended:
            if texts.startswith(name, at):
                found.setdefault(name[:-1], value)
    return found
