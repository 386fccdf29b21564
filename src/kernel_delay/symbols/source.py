"""Inlined functions and source lines, from DWARF debug information."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_delay.symbols._libdw import ffi, lib
from kernel_delay.symbols.frames import Frame

if TYPE_CHECKING:
    from kernel_delay.cdata import Pointer
    from kernel_delay.symbols._libdw import DwarfDiePointer, DwflModulePointer


NAME_BYTES = 16 << 10
"""The longest name that is read; C++ has some of a few thousand."""


def text(string: "Pointer[bytes]") -> str:
    """Turn a C string of another program into text; bytes that are no UTF-8 print as \\xNN."""
    return ffi.string(string, NAME_BYTES).decode(errors="backslashreplace")


def source_frames(module: "DwflModulePointer", address: int, frame: Frame) -> tuple[Frame, ...]:
    """Expand a named frame into the functions inlined at `address`, innermost first, and itself.

    Each has its file:line: the innermost that of `address`, an outer one that
    of the call. Without debug information it is just `frame`.
    """
    line = _line(module, address)
    frames = []
    unit, bias = _unit(module, address)
    if unit:
        for scope in _inlined(unit, address - bias):
            name = lib.dwarf_diename(scope)
            frames.append(
                Frame(frame.address, text(name) if name else None, 0, frame.object, line, True)
            )
            line = _call_line(scope, unit)
    outer = Frame(frame.address, frame.name, frame.offset, frame.object, line)
    return (*frames, outer)


def _line(module: "DwflModulePointer", address: int) -> str | None:
    number = ffi.new("int *")
    line = lib.dwfl_module_getsrc(module, address)
    if not line:
        return None
    file = lib.dwfl_lineinfo(line, ffi.NULL, number, ffi.NULL, ffi.NULL, ffi.NULL)
    return f"{text(file)}:{number[0]}" if file else None


def _unit(module: "DwflModulePointer", address: int) -> "tuple[DwarfDiePointer, int]":
    """The compilation unit of an address; searched for where .debug_aranges lacks (Clang)."""
    bias = ffi.new("Dwarf_Addr *")
    unit = lib.dwfl_module_addrdie(module, address, bias)
    if unit:
        return unit, bias[0]
    unit = lib.dwfl_module_nextcu(module, ffi.NULL, bias)
    while unit and lib.dwarf_haspc(unit, address - bias[0]) != 1:
        unit = lib.dwfl_module_nextcu(module, unit, bias)
    return unit, bias[0]


def _inlined(unit: "DwarfDiePointer", address: int) -> "list[DwarfDiePointer]":
    """The inlined calls around an address of the file, innermost first."""
    around = _scopes(lambda found: lib.dwarf_getscopes(unit, address, found))
    if not around:
        return []
    # dwarf_getscopes goes on in the abstract function; the callers are around the DIE itself.
    nested = _scopes(lambda found: lib.dwarf_getscopes_die(around[0], found))
    inlined = []
    for scope in nested:
        if lib.dwarf_tag(scope) == lib.DW_TAG_subprogram:
            break
        if lib.dwarf_tag(scope) == lib.DW_TAG_inlined_subroutine:
            inlined.append(scope)
    return inlined


def _scopes(
    get_scopes: "Callable[[Pointer[DwarfDiePointer]], int]",
) -> "list[DwarfDiePointer]":
    found = ffi.new("Dwarf_Die **")
    count = get_scopes(found)
    if count <= 0:
        return []
    scopes = ffi.gc(found[0], lib.free)
    # Each DIE is copied: a pointer into the array would not keep it alive.
    return [ffi.new("Dwarf_Die *", scopes[i]) for i in range(count)]


def _call_line(scope: "DwarfDiePointer", unit: "DwarfDiePointer") -> str | None:
    files = ffi.new("Dwarf_Files **")
    count = ffi.new("size_t *")
    file, line = _number(scope, lib.DW_AT_call_file), _number(scope, lib.DW_AT_call_line)
    if file is None or line is None or lib.dwarf_getsrcfiles(unit, files, count):
        return None
    name = lib.dwarf_filesrc(files[0], file, ffi.NULL, ffi.NULL)
    return f"{text(name)}:{line}" if name else None


def _number(die: "DwarfDiePointer", attribute: int) -> int | None:
    place = ffi.new("Dwarf_Attribute *")
    value = ffi.new("Dwarf_Word *")
    if lib.dwarf_formudata(lib.dwarf_attr(die, attribute, place), value):
        return None
    return value[0]
