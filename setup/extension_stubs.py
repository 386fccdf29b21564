"""Writes the types of the extensions: what the C compiler made of the headers, for mypy.

Each extension is asked for its structs, constants and functions, so it has to be built
before; `make stubs` does both. The stubs are committed: a change of a header shows in
them, an editor knows the fields without a build, and a unit test (test_extension_stubs.py) fails
when they are old.

A struct is a class, and a pointer to it that class's `...Pointer`, which has the fields
too as cffi has it. The rest of C's types is in src/kernel_delay/cdata.pyi.
"""

import importlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

EXTENSIONS = (
    "kernel_delay.signals._signals",
    "kernel_delay.capture.syscall_events._events",
    "kernel_delay.capture.timeline._timeline",
    "kernel_delay.host._seccomp",
    "kernel_delay.libbpf._libbpf",
    "kernel_delay.loader._records",
    "kernel_delay.monitors.upcalls._upcall_records",
    "kernel_delay.openvswitch._ovs_records",
    "kernel_delay.symbols._libdw",
)

# What ffi knows without a declaration, of which the code makes pointers and arrays.
INTEGERS = ("int", "int32_t", "int64_t", "size_t", "uint8_t", "uint32_t", "uint64_t", "uintptr_t")

HEAD = '''"""Types of the extension {name}; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import (
    Array,
    CData,
    CType,
    Flat,
    Function,
    Null,
    Number,
    Pointer,
)

_T = TypeVar("_T")
_C = TypeVar("_C", bound=CData)
'''

FFI_METHODS = """
    NULL: Final[Null]
    errno: int
    def string(self, text: Array[bytes] | Pointer[bytes], maxlen: int = ..., /) -> bytes: ...
    @overload
    def unpack(  # type: ignore[overload-overlap]  # chars are not a list
        self, items: Array[bytes] | Pointer[bytes], length: int, /
    ) -> bytes: ...
    @overload
    def unpack(self, items: Array[_T] | Pointer[_T], length: int, /) -> list[_T]: ...
    def buffer(self, memory: CData, size: int = ..., /) -> Flat: ...
    def sizeof(self, kind: str | CData | CType[object], /) -> int: ...
    def gc(self, owned: _T, free: Callable[[_T], object], /) -> _T: ...
"""


class Stub:
    """The stub of one extension."""

    def __init__(self, module: str) -> None:
        """Read the extension `module`, which must be importable."""
        extension = importlib.import_module(module)
        self._module = module
        self._ffi: Any = extension.ffi
        self._lib: Any = extension.lib
        typedefs, structs, _ = self._ffi.list_types()
        # Of each struct the names it goes by: with its tag, and typedefs.
        self._structs = {f"struct {tag}": [f"struct {tag}"] for tag in structs}
        self._integers = list(INTEGERS)
        for name in typedefs:
            kind = self._ffi.typeof(name)
            if kind.kind == "struct":
                self._structs.setdefault(kind.cname, []).append(name)
            elif kind.kind in ("primitive", "enum") and not name.startswith("__"):
                self._integers.append(name)

    def text(self) -> str:
        """Return the stub."""
        parts = [HEAD.format(name=self._module.rpartition(".")[2])]
        parts += [self._struct(cname) for cname in self._structs]
        parts.append("class _FFI:\n" + "".join(self._ffi_lines()))
        parts.append("class _Lib:\n" + ("".join(self._lib_lines()) or "    ...\n"))
        parts.append("ffi: _FFI\nlib: _Lib\n")
        return "\n".join(parts)

    def _struct(self, cname: str) -> str:
        name = class_name(cname)
        fields = [f"    {field}: {self._read(kind)}\n" for field, kind in self._fields(cname)]
        body = "\n" + "".join(fields) if fields else " ...\n"
        return f"class {name}(CData):{body}class {name}Pointer({name}, Pointer[{name}]): ...\n"

    def _fields(self, cname: str) -> list[tuple[str, Any]]:
        """Return the fields that are declared; none of a struct of which only pointers are."""
        try:
            self._ffi.sizeof(cname)
        except self._ffi.error:
            return []
        return [(name, field.type) for name, field in self._ffi.typeof(cname).fields]

    def _read(self, kind: Any) -> str:
        """Return the type of a value of C's type `kind` that a field holds or a function gives."""
        match kind.kind:
            case "void":
                return "None"
            case "enum":
                return "int"
            case "primitive":
                return {"char": "bytes", "_Bool": "bool", "double": "float"}.get(kind.cname, "int")
            case "struct":
                return class_name(kind.cname)
            case "array":
                return f"Array[{self._read(kind.item)}]"
            case "pointer":
                return self._pointer(kind)
        return "Function"

    def _pointer(self, kind: Any) -> str:
        read = self._read(kind.item)
        return f"{read}Pointer" if kind.item.kind == "struct" else f"Pointer[{read}]"

    def _passed(self, kind: Any) -> str:
        """Return the type of what may be passed to a function where it takes `kind`."""
        if kind.kind != "pointer":
            return self._read(kind)
        if kind.item.kind == "void":
            return "CData | bytes"
        text = " | bytes" if kind.item.cname in ("char", "uint8_t", "unsigned char") else ""
        return f"{self._pointer(kind)} | Array[{self._read(kind.item)}]{text} | Null"

    def _ffi_lines(self) -> Iterator[str]:
        yield FFI_METHODS.removeprefix("\n")
        yield from overloads("typeof", self._typeof())
        yield from overloads("new", self._new())
        yield from overloads("cast", self._cast())
        yield from overloads("from_buffer", self._from_buffer())
        yield from overloads("addressof", self._addressof())

    def _typeof(self) -> Iterator[str]:
        yield "(self, kind: str, /) -> CType[CData]"
        yield "(self, value: _C, /) -> CType[_C]"

    def _new(self) -> Iterator[str]:
        filled = "init: int | Iterable[int] | Buffer = ..., /"
        rows = "init: int | Iterable[tuple[int, ...]], /"
        yield '(self, kind: Literal["char[]"], init: int | bytes, /) -> Array[bytes]'
        yield '(self, kind: Literal["void **"], /) -> Pointer[Pointer[None]]'
        yield f"(self, kind: {self._ints('[]')}, {filled}) -> Array[int]"
        yield f"(self, kind: {self._ints(' *')}, init: int = ..., /) -> Pointer[int]"
        yield f"(self, kind: {self._ints(' **')}, /) -> Pointer[Pointer[int]]"
        for name, cnames in self._classes():
            yield f"(self, kind: {literal(cnames, ' *')}, init: {name} = ..., /) -> {name}Pointer"
            yield f"(self, kind: {literal(cnames, '[]')}, {rows}) -> Array[{name}]"
            yield f"(self, kind: {literal(cnames, ' **')}, /) -> Pointer[{name}Pointer]"
        yield "(self, kind: CType[Array[_T]], init: int, /) -> Array[_T]"

    def _cast(self) -> Iterator[str]:
        yield f"(self, kind: {self._ints('')}, value: int | CData, /) -> Number"
        yield f"(self, kind: {self._ints(' *')}, value: int | CData, /) -> Pointer[int]"
        for name, cnames in self._classes():
            yield f"(self, kind: {literal(cnames, ' *')}, value: int | CData, /) -> {name}Pointer"

    def _from_buffer(self) -> Iterator[str]:
        yield '(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]'
        yield f"(self, kind: {self._ints('[]')}, memory: Buffer, /) -> Array[int]"
        for name, cnames in self._classes():
            yield f"(self, kind: {literal(cnames, ' *')}, memory: Buffer, /) -> {name}Pointer"
            yield f"(self, kind: {literal(cnames, '[]')}, memory: Buffer, /) -> Array[{name}]"
        # Of a name that is made at run time; the modules that mypy forbids Any have none.
        yield "(self, kind: str, memory: Buffer, /) -> Any"

    def _addressof(self) -> Iterator[str]:
        for name, cnames in self._classes():
            fields = defaultdict(list)
            for field, kind in self._fields(cnames[0]):
                if kind.kind != "array":
                    read = self._read(kind)
                    pointer = f"{read}Pointer" if kind.kind == "struct" else f"Pointer[{read}]"
                    fields[pointer].append(field)
            for pointer, names in fields.items():
                yield f"(self, struct: {name}, field: {literal(names)}, /) -> {pointer}"
            yield f"(self, array: Array[{name}], index: int, /) -> {name}Pointer"
            yield f"(self, struct: {name}, /) -> {name}Pointer"
        yield "(self, array: Array[int], index: int, /) -> Pointer[int]"
        # As above.
        yield "(self, struct: CData, field: str, /) -> Any"

    def _ints(self, suffix: str) -> str:
        return literal(self._integers, suffix)

    def _classes(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each struct's class, and the names that C has for the struct."""
        for cname, names in self._structs.items():
            yield class_name(cname), names

    def _lib_lines(self) -> Iterator[str]:
        for name in dir(self._lib):
            value = getattr(self._lib, name)
            if isinstance(value, int):
                yield f"    {name}: Final[int]\n"
                continue
            function = self._ffi.typeof(value)
            arguments = ", ".join(
                f"a{number}: {self._passed(kind)}" for number, kind in enumerate(function.args)
            )
            given = f"self, {arguments}, /" if arguments else "self"
            yield f"    def {name}({given}) -> {self._read(function.result)}: ...\n"


def class_name(cname: str) -> str:
    """Return the class of a struct: `struct ring_position` is RingPosition."""
    words = cname.removeprefix("struct ").split("_")
    return "".join(word[:1].upper() + word[1:] for word in words)


def literal(names: Iterable[str], suffix: str = "") -> str:
    """Return the type of any of these strings, each with the suffix."""
    return f"Literal[{', '.join(repr(name + suffix) for name in names)}]"


def overloads(name: str, signatures: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a method's overloads; of one signature alone it is none."""
    lines = [f"    def {name}{signature}: ...\n" for signature in signatures]
    for line in lines:
        yield f"    @overload\n{line}" if len(lines) > 1 else line


def path_of(module: str) -> Path:
    """Return where an extension's stub is."""
    root = Path(__file__).parent.parent / "src"
    return root.joinpath(*module.split(".")).with_suffix(".pyi")


def main() -> None:
    """Write the stubs of all extensions, or of those given."""
    for module in sys.argv[1:] or EXTENSIONS:
        path_of(module).write_text(Stub(module).text())


if __name__ == "__main__":
    main()
