"""Types, as BTF has them: read with bpftool, and looked up by name."""

import subprocess
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

# Debian has it where only root looks.
BPFTOOL = "/usr/sbin/bpftool"

ANONYMOUS = "(anon)"
COMPOSITES = frozenset({"STRUCT", "UNION"})
ENUMS = frozenset({"ENUM", "ENUM64"})
_TRANSPARENT = frozenset({"TYPEDEF", "CONST", "VOLATILE", "RESTRICT", "TYPE_TAG"})


class Member(Struct, frozen=True):
    """A member of a struct, a union or a section; an enumerator; a parameter."""

    name: str = ANONYMOUS
    type_id: int = 0
    offset: int = 0
    """Bytes, of what is in a section."""


class Type(Struct, frozen=True):
    """A type, in bpftool's words."""

    id: int
    kind: str
    name: str = ANONYMOUS
    type_id: int = 0
    nr_elems: int = 0
    members: tuple[Member, ...] = ()
    values: tuple[Member, ...] = ()
    vars: tuple[Member, ...] = ()


class _Dump(Struct, frozen=True):
    types: tuple[Type, ...]


VOID = Type(0, "VOID", "void")


class Types:
    """The types of an object or a kernel."""

    def __init__(self, types: tuple[Type, ...]) -> None:
        """Keep types in the order of their ids, which begin with 1."""
        self._types = (VOID, *types)

    @classmethod
    def read(cls, path: Path, kernel: Path | None = None) -> "Types":
        """Read the BTF of an ELF file, or BTF alone; of a module, with that of its kernel.

        Raises CalledProcessError where bpftool finds none.
        """
        if kernel is None:
            return cls(_dumped(path))
        return cls((*_dumped(kernel), *_dumped(path, f"--base-btf={kernel}")))

    def __getitem__(self, type_id: int) -> Type:
        """Return the type with an id."""
        return self._types[type_id]

    def __iter__(self) -> Iterator[Type]:
        """Go through all types."""
        return iter(self._types)

    def resolved(self, type_id: int) -> Type:
        """Return the type without its typedefs and qualifiers."""
        found = self._types[type_id]
        while found.kind in _TRANSPARENT:
            found = self._types[found.type_id]
        return found

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of types that there are."""
        return frozenset(each.kind for each in self._types)

    @cached_property
    def named(self) -> Mapping[str, tuple[Type, ...]]:
        """The types by their names without the flavor, declarations apart."""
        found: dict[str, list[Type]] = {}
        for each in self._types:
            if each.kind != "FWD":
                found.setdefault(without_flavor(each.name), []).append(each)
        return {name: tuple(types) for name, types in found.items()}


def without_flavor(name: str) -> str:
    """Return a type's name as the kernel has it: libbpf ignores `___` and what follows."""
    return name.partition("___")[0]


def _dumped(path: Path, *options: str) -> tuple[Type, ...]:
    command = [BPFTOOL, "--json", *options, "btf", "dump", "file", str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=_Dump).types
