"""CO-RE relocations: what an object asks of the kernel's types, from its section .BTF.ext.

No library that Debian has names them: bpftool and libbpf apply them only. The format is that of
Documentation/bpf/llvm_reloc.rst, and of libbpf's `struct bpf_core_relo`.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tests.requirements.btf import ANONYMOUS, COMPOSITES, ENUMS, Type, Types, without_flavor

# struct btf_header, up to where its strings are; struct btf_ext_header, whose last two say where
# the relocations are. Offsets count from the end of a header.
_BTF = struct.Struct("<HBBI4x4xI4x")
_BTF_EXT = struct.Struct("<HBBI16xII")
# The size of a relocation stands before them all; before those of a section, its name and count.
_SIZE = struct.Struct("<I")
_SECTION = struct.Struct("<II")
_RELOCATION = struct.Struct("<IIII")


class Kind(IntEnum):
    """enum bpf_core_relo_kind of the kernel's include/uapi/linux/bpf.h."""

    FIELD_BYTE_OFFSET = 0
    FIELD_BYTE_SIZE = 1
    FIELD_EXISTS = 2
    FIELD_SIGNED = 3
    FIELD_LSHIFT_U64 = 4
    FIELD_RSHIFT_U64 = 5
    TYPE_ID_LOCAL = 6
    TYPE_ID_TARGET = 7
    TYPE_EXISTS = 8
    TYPE_SIZE = 9
    ENUMVAL_EXISTS = 10
    ENUMVAL_VALUE = 11
    TYPE_MATCHES = 12


# They need nothing: the program asks whether something is there.
EXISTENCE = frozenset({Kind.FIELD_EXISTS, Kind.TYPE_EXISTS, Kind.ENUMVAL_EXISTS, Kind.TYPE_MATCHES})
TYPE_BASED = frozenset({Kind.TYPE_EXISTS, Kind.TYPE_SIZE, Kind.TYPE_ID_TARGET, Kind.TYPE_MATCHES})
ENUM_BASED = frozenset({Kind.ENUMVAL_EXISTS, Kind.ENUMVAL_VALUE})


class Relocation(NamedTuple):
    """A relocation.

    kind: what is asked.
    root: the type's name as the kernel has it.
    path: the members' names from the root to the field, without those of arrays; of an enumerator
        its name alone; empty for a type.
    leaf: the kind of the type of the last member, such as INT or ARRAY, without typedefs.
    """

    kind: Kind
    root: str
    path: tuple[str, ...]
    leaf: str


def read_relocations(btf: bytes, btf_ext: bytes, types: Types) -> Iterator[Relocation]:
    """Read the relocations of an object's sections .BTF and .BTF.ext, little-endian both."""
    *_, btf_header, strings = _BTF.unpack_from(btf)
    *_, header, offset, length = _BTF_EXT.unpack_from(btf_ext)
    at, end = header + offset + _SIZE.size, header + offset + length
    while at < end:
        _, count = _SECTION.unpack_from(btf_ext, at)
        at += _SECTION.size
        for _ in range(count):
            _, type_id, access, kind = _RELOCATION.unpack_from(btf_ext, at)
            at += _RELOCATION.size
            begin = btf_header + strings + access
            indices = btf[begin : btf.index(0, begin)].split(b":")
            if kind != Kind.TYPE_ID_LOCAL:
                yield _described(Kind(kind), type_id, tuple(map(int, indices)), types)


def _described(kind: Kind, type_id: int, access: tuple[int, ...], types: Types) -> Relocation:
    root = types[type_id]
    found = types.resolved(type_id)
    name = without_flavor(root.name)
    if kind in TYPE_BASED:
        return Relocation(kind, name, (), found.kind)
    if found.kind in ENUMS:
        return Relocation(kind, name, (found.values[access[0]].name,), found.kind)
    path, leaf = [], found.kind
    # The first index is that of the root in an array of such.
    for index in access[1:]:
        if found.kind == "ARRAY":
            found = types.resolved(found.type_id)
            continue
        member = found.members[index]
        found = types.resolved(member.type_id)
        if member.name != ANONYMOUS:
            path.append(member.name)
            leaf = found.kind
    return Relocation(kind, name, tuple(path), leaf)


def find_field(root: Type, path: tuple[str, ...], types: Types) -> Type | None:
    """Return the type of a root's field, None if it has none of the name."""
    if not path:
        return root
    while root.kind == "ARRAY":
        root = types.resolved(root.type_id)
    if root.kind not in COMPOSITES:
        return None
    for member in root.members:
        within = types.resolved(member.type_id)
        if member.name == path[0]:
            return find_field(within, path[1:], types)
        if member.name == ANONYMOUS and (found := find_field(within, path, types)):
            return found
    return None
