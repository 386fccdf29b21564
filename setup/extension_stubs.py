"""Writes the types of the extensions: what the C compiler made of the headers, for mypy.

Each extension is asked for its structs, constants and functions, so it has to be built
before; `make stubs` does both. The stubs are committed: a change of a header shows in
them, an editor knows the fields without a build, and a unit test (test_extension_stubs.py) fails
when they are old.

A struct is a class, and a pointer to it that class's `...Pointer`, which has the fields
too as cffi has it. The rest of C's types, and what ffi has for all of them, is in
src/kernel_delay/cdata.pyi. A stub has what is left: the types that the modules that import the
extension ask ffi for by name, and the fields whose addresses they take.
"""

import ast
import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent.parent

EXTENSIONS = (
    "kernel_delay.api._block",
    "kernel_delay.host._signals",
    "kernel_delay.capture.chains._chain_records",
    "kernel_delay.capture.syscall_events._events",
    "kernel_delay.capture.timeline._timeline",
    "kernel_delay.host._seccomp",
    "kernel_delay.host._files",
    "kernel_delay.loader._libbpf",
    "kernel_delay.loader._records",
    "kernel_delay.monitors.upcalls._upcall_records",
    "kernel_delay.openvswitch._ovs_records",
    "kernel_delay.symbols._libdw",
    "kernel_delay.where._where_records",
)

HEAD = '''"""Types of the extension {name}; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")
'''

# What a module asks ffi for by a type's name, and what by a field's.
BY_TYPE = re.compile(r'ffi\.(new|cast|from_buffer)\(\s*"([^"]+)"')
WORD = re.compile(r'"(\w+)"')

RESULTS = {" *": "{name}Pointer", "[]": "Array[{name}]", " **": "Pointer[{name}Pointer]"}
"""What ffi makes of a struct's name with that behind it."""

ARGUMENTS = {
    ("new", " *"): "init: {name} = ..., /",
    ("new", "[]"): "init: int | Iterable[tuple[int, ...]], /",
    ("new", " **"): "/",
    ("cast", " *"): "value: int | CData, /",
    ("from_buffer", " *"): "memory: Buffer, /",
    ("from_buffer", "[]"): "memory: Buffer, /",
}
"""What a method takes behind such a name."""

INTEGER_CALLS = {
    ("new", " *"): "(self, kind: {kind}, init: int = ..., /) -> Pointer[int]",
    ("cast", ""): "(self, kind: {kind}, value: int | CData, /) -> Number",
}
"""The same of an extension's own names of integers."""


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
        self._integers: list[str] = []
        for name in typedefs:
            kind = self._ffi.typeof(name)
            if kind.kind == "struct":
                self._structs.setdefault(kind.cname, []).append(name)
            elif kind.kind in ("primitive", "enum"):
                self._integers.append(name)
        users = [text for text in sources() if module.rpartition(".")[2] in text]
        by_field = [text for text in users if "ffi.addressof(" in text]
        self._calls = {call for text in users for call in BY_TYPE.findall(text)}
        self._words = {word for text in by_field for word in WORD.findall(text)}

    def text(self) -> str:
        """Return the stub."""
        parts = [HEAD.format(name=self._module.rpartition(".")[2])]
        parts += [self._struct(cname) for cname in self._structs]
        parts.append("class _FFI(FFI):\n" + ("".join(self._ffi_lines()) or "    ...\n"))
        parts.append("class _Lib:\n" + ("".join(self._lib_lines()) or "    ...\n"))
        parts.append("ffi: _FFI\nlib: _Lib\n")
        return "\n".join(parts)

    def _struct(self, cname: str) -> str:
        name = class_name(cname)
        fields = [f"    {field}: {self._read(kind)}\n" for field, kind in self._fields(cname)]
        body = "\n" + "".join(fields) if fields else " ...\n"
        pointer = f"{name}Pointer"
        return (
            f"class {name}(Struct[{pointer}]):{body}class {pointer}({name}, Pointer[{name}]): ...\n"
        )

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
        for method in ("new", "cast", "from_buffer"):
            yield from overloads(method, list(self._by_type(method)))
        yield from overloads("addressof", list(self._by_field()))

    def _by_type(self, method: str) -> Iterator[str]:
        for name, cnames in self._classes():
            for suffix, result in RESULTS.items():
                asked = [each + suffix for each in cnames if (method, each + suffix) in self._calls]
                if asked:
                    arguments = f"self, kind: {literal(asked)}, {ARGUMENTS[method, suffix]}"
                    yield f"({arguments}) -> {result}".format(name=name)
        for (of, suffix), signature in INTEGER_CALLS.items():
            asked = [each + suffix for each in self._integers if (of, each + suffix) in self._calls]
            if of == method and asked:
                yield signature.format(kind=literal(asked))

    def _by_field(self) -> Iterator[str]:
        for name, cnames in self._classes():
            fields = defaultdict(list)
            for field, kind in self._fields(cnames[0]):
                if kind.kind != "array" and field in self._words:
                    read = self._read(kind)
                    pointer = f"{read}Pointer" if kind.kind == "struct" else f"Pointer[{read}]"
                    fields[pointer].append(field)
            for pointer, names in fields.items():
                yield f"(self, struct: {name}, field: {literal(names)}, /) -> {pointer}"

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


def literal(names: Iterable[str]) -> str:
    """Return the type of any of these strings."""
    return f"Literal[{', '.join(map(repr, names))}]"


def overloads(method: str, own: list[str]) -> Iterator[str]:
    """Yield the lines of a method's overloads, FFI's own behind these; nothing without any."""
    if own:
        for signature in own:
            yield f"    @overload\n    def {method}{signature}: ...\n"
        yield inherited()[method]


@cache
def inherited() -> dict[str, str]:
    """Return the lines of the methods that FFI has in cdata.pyi, by their names."""
    text = (PROJECT / "src" / "kernel_delay" / "cdata.pyi").read_text()
    ffi = next(node for node in ast.parse(text).body if getattr(node, "name", None) == "FFI")
    assert isinstance(ffi, ast.ClassDef)
    lines, found = text.splitlines(keepends=True), defaultdict[str, str](str)
    for node in ffi.body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found[node.name] += "".join(lines[first - 1 : node.end_lineno])
    return found


@cache
def sources() -> tuple[str, ...]:
    """Return the text of each Python file that can import an extension."""
    folders = [PROJECT / "src", PROJECT / "tests", PROJECT / "bench"]
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    return tuple(path.read_text() for path in files)


def path_of(module: str) -> Path:
    """Return where an extension's stub is."""
    return (PROJECT / "src").joinpath(*module.split(".")).with_suffix(".pyi")


def main() -> None:
    """Write the stubs of all extensions, or of those given."""
    for module in sys.argv[1:] or EXTENSIONS:
        path_of(module).write_text(Stub(module).text())


if __name__ == "__main__":
    main()
