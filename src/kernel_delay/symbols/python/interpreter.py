"""The CPython interpreter in a process: where it is, and which version."""

import re
from collections.abc import Iterable

from msgspec import Struct

from kernel_delay.symbols.data_symbols import exported_variables
from kernel_delay.symbols.memory import Read
from kernel_delay.symbols.object_files import ObjectFile
from kernel_delay.symbols.python.layouts import (
    OWN_TABLE_BYTES,
    Layout,
    layout_of,
    own_version,
    version_of,
)
from kernel_delay.symbols.python.objects import word_in

RUNTIME = b"_PyRuntime"
VERSION = b"Py_Version"
CODE_TYPE = b"PyCode_Type"
FRAME_TYPE = b"PyFrame_Type"

TOTAL_OF_REFERENCES = b"_Py_RefTotal"
"""A debug build before 3.12 has it (Py_REF_DEBUG)."""

MOST_OBJECTS = 1024
"""Files that are searched for the interpreter; each takes some 50 µs."""

# Names as python3.10, python3.7m and libpython3.10.so.1.0.
_FILE = re.compile(r"(?:lib)?python(\d\.\d+)[a-z]*(?:\.so.*)?")

# Py_Version came with 3.11. Before, the structures of all releases of a minor version are the same.
_NAMED_VERSIONS = {"3.8": 0x030800F0, "3.9": 0x030900F0, "3.10": 0x030A00F0}

# PY_RELEASE_LEVEL_GAMMA, a release candidate: the structures of alphas and betas are others.
_RELEASE_CANDIDATE = 0xC


class Interpreter(Struct, frozen=True):
    """A CPython interpreter.

    Attributes:
        version: The version for people, as "3.11.7"; "" if it is not known.
        runtime: The address of _PyRuntime.
        layout: Where fields are. None: not known for this version.
        code_type: The address of PyCode_Type. None: not known.
        frame_type: The address of PyFrame_Type, the type of frames before 3.11. None: not known.
    """

    version: str
    runtime: int
    layout: Layout | None
    code_type: int | None
    frame_type: int | None = None


_VARIABLES = (RUNTIME, VERSION, CODE_TYPE, FRAME_TYPE, TOTAL_OF_REFERENCES)


def find_interpreter(objects: Iterable[ObjectFile], read: Read) -> Interpreter | None:
    """Find the interpreter of a process.

    Args:
        objects: The files that the process maps as code. They stay open.
        read: Reads memory of the process.

    Returns:
        The interpreter. None: none of the files has one.
    """
    found: dict[bytes, int] = {}
    version = ""
    in_order = sorted(objects, key=lambda each: each.code.start)
    for file in in_order[:MOST_OBJECTS]:
        for name, address in exported_variables(file.fd, _VARIABLES).items():
            # The dynamic linker takes the first: a program may have a copy of a library's.
            found.setdefault(name, address + file.bias)
        named = _FILE.fullmatch(file.code.path.rpartition("/")[2])
        if named is not None:
            version = version or named[1]
    if RUNTIME not in found:
        # _PyRuntime came with 3.7.
        return Interpreter(version, 0, None, None) if version else None
    return _interpreter(found, version, read)


def _interpreter(found: dict[bytes, int], version: str, read: Read) -> Interpreter:
    runtime = found[RUNTIME]
    table = read(runtime, OWN_TABLE_BYTES)
    number = own_version(table)
    if not number and VERSION in found:
        number = word_in(read(found[VERSION], 8), 0)
    if number:
        version = f"{'.'.join(map(str, version_of(number)))}.{number >> 8 & 0xFF}"
    elif TOTAL_OF_REFERENCES not in found:
        number = _NAMED_VERSIONS.get(version, 0)
    layout = layout_of(number, table) if number >> 4 & 0xF >= _RELEASE_CANDIDATE else None
    return Interpreter(version, runtime, layout, found.get(CODE_TYPE), found.get(FRAME_TYPE))
