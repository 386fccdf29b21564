"""The functions of an ELF file and where in the file they begin: where uprobes go.

uprobes are set at file offsets (include/linux/uprobes.h, uprobe_register, 6.18),
symbols have addresses; the program headers turn one into the other.
"""

import fnmatch
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from kernel_delay.errors import InputError, NoInputError, UnavailableError, similar_names
from kernel_delay.host.stored_files import Root
from kernel_delay.symbols._libdw import ffi, lib
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.debug_files import (
    DebugFiles,
    by_build_id,
    fetch_debug_files,
    find_debug_files,
    may_fetch,
)
from kernel_delay.symbols.elf import Elf, read_elf

if TYPE_CHECKING:
    from kernel_delay.symbols._libdw import DwflModulePointer


class Function(Struct, frozen=True):
    """A function's first instruction lies at `file_offset` of the file."""

    name: str
    file_offset: int


class Functions:
    """The functions of one ELF file, from all symbol tables that can be found.

    Those are .symtab, or that of a separate debug file, or .dynsym and
    .gnu_debugdata together. `stripped`: there was .dynsym at most:
    only exported functions are known, and `build_id` is what a debug package
    must have. `unfetched` is then why debuginfod gave none, if that was asked.
    """

    def __init__(
        self,
        elf: Elf,
        addresses: dict[str, tuple[int, ...]],
        stripped: bool,
        unfetched: str | None = None,
    ) -> None:
        """See `open`."""
        self.build_id = elf.build_id
        self.stripped = stripped
        self.unfetched = unfetched
        self._elf = elf
        self._addresses = addresses

    @classmethod
    def open(cls, path: str, root: Path = Path("/")) -> Self:
        """Read the functions of the file at `path` below `root`, such as /proc/123/root.

        Raises NoInputError when it can't be opened, InputError when it is no
        ELF file.
        """
        opened = Root(root)
        try:
            file = opened.open(path)
        finally:
            opened.close()
        if file is None:
            raise NoInputError(f"can't open {path}: there is no such readable file")
        try:
            return cls.read(file.fd, path, root)
        finally:
            os.close(file.fd)

    @classmethod
    def read(cls, fd: int, path: str, root: Path = Path("/")) -> Self:
        """Read the functions of an open file, which need not be at `path` below `root` any more.

        Its debug files are looked for there. Raises InputError when it is no
        ELF file. `fd` stays open.
        """
        bounds = Bounds()
        roots = [Root(root, bounds.files), Root(Path("/"), bounds.files)]
        try:
            return cls._read(fd, path, roots, bounds)
        finally:
            for opened in roots:
                opened.close()

    @classmethod
    def _read(cls, fd: int, path: str, roots: Sequence[Root], bounds: Bounds) -> Self:
        if not bounds.may_read(fd, path):
            raise InputError(*bounds.take_remarks())
        elf = read_elf(fd)
        if elf is None:
            raise InputError(f"{path} is not an ELF file: give an executable or a library")
        debug = find_debug_files(elf, path, roots, bounds)
        try:
            addresses, stripped = _read_symbols(fd, path, debug)
        finally:
            if debug:
                debug.close()
        if not (stripped and elf.build_id and may_fetch()):
            return cls(elf, addresses, stripped)
        try:
            fetched = fetch_debug_files(elf.build_id, roots[-1], bounds)
        except UnavailableError as error:
            return cls(elf, addresses, stripped, str(error))
        try:
            return cls(elf, *_read_symbols(fd, path, fetched))
        finally:
            fetched.close()

    def debug_file(self) -> str | None:
        """Where a debug package has its symbols; None if it has no build-id."""
        return None if self.build_id is None else by_build_id(self.build_id)

    def find(self, name: str) -> tuple[Function, ...]:
        """Find the functions called `name`: several when static functions share it."""
        offsets = (self._elf.file_offset(address) for address in self._addresses.get(name, ()))
        return tuple(Function(name, offset) for offset in offsets if offset is not None)

    def matching(self, pattern: str) -> tuple[Function, ...]:
        """List the functions whose names match a glob pattern (fnmatch), by name."""
        names = sorted(fnmatch.filter(self._addresses, pattern))
        return tuple(function for name in names for function in self.find(name))

    def similar(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Name the functions most like `name`, the best first, for an error's text."""
        return similar_names(name, self._addresses, count)


def _read_symbols(
    fd: int, path: str, debug: DebugFiles | None
) -> tuple[dict[str, tuple[int, ...]], bool]:
    dwfl = lib.modules_begin()
    if not dwfl:
        raise MemoryError
    try:
        module = lib.modules_add(dwfl, os.fsencode(path), os.dup(fd), 0)
        if not module:
            return {}, True
        if debug:
            debug_path = os.fsencode(debug.path)
            lib.module_add_debug(module, os.dup(debug.fd), debug_path, -1, ffi.NULL)
        lib.modules_reported(dwfl)
        return _functions(module)
    finally:
        lib.modules_free(dwfl)


def _functions(module: "DwflModulePointer") -> tuple[dict[str, tuple[int, ...]], bool]:
    symbols_there = max(lib.dwfl_module_getsymtab(module), 0)
    addresses = ffi.new("uint64_t[]", min(symbols_there, lib.MAX_SYMBOLS))
    out = ffi.new("struct functions *")
    names = lib.module_functions(module, addresses, out)
    if not names:
        raise MemoryError
    try:
        text = bytes(ffi.buffer(names, out.names_len)).decode(errors="backslashreplace")
    finally:
        lib.free(names)
    functions: dict[str, tuple[int, ...]] = {}
    symbols = text.split("\0")[: out.n]
    for symbol, address in zip(symbols, ffi.unpack(addresses, out.n), strict=True):
        name = symbol.partition("@@")[0]  # the default version is what is called by this name
        known = functions.get(name, ())
        if address not in known:
            functions[name] = (*known, address)
    return functions, not out.has_local
