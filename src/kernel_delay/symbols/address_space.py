"""Unwinding and naming in a process's address space, by elfutils' libdwfl."""

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from kernel_delay.errors import UnavailableError
from kernel_delay.formatting import encodable
from kernel_delay.symbols._libdw import ffi, lib
from kernel_delay.symbols.bounds import FRAMES_NS, ROWS_NS, UNWIND_ROWS
from kernel_delay.symbols.frames import Frame, Stack, StackEnd
from kernel_delay.symbols.go_functions import OUTERMOST, GoFunctions
from kernel_delay.symbols.mappings import Mapping, code_ranges
from kernel_delay.symbols.object_files import ObjectFile
from kernel_delay.symbols.process_image import ProcessImage
from kernel_delay.symbols.source import source_frames, text
from kernel_delay.symbols.unwind_rows import CodeRange, NoRowsError, UnwindRows

if TYPE_CHECKING:
    from kernel_delay.cdata import Null
    from kernel_delay.symbols._libdw import DwflModulePointer, DwflPointer, UnwinderPointer

ENDS: tuple[StackEnd, ...] = ("whole", "short", "lost")

Machine = Literal["x86_64", "i386", "aarch64", "arm"]

# 64-bit ones first.
MACHINES: dict[Machine, int] = {
    "x86_64": lib.EM_X86_64,
    "aarch64": lib.EM_AARCH64,
    "i386": lib.EM_386,
    "arm": lib.EM_ARM,
}


LargeFrame = tuple[int, int, int, int]
"""Code from its start to its end, the frame's bytes, and its function's first instruction."""


class AddressSpace:
    """The code noted in a ProcessImage, opened for unwinding and naming.

    Not for two threads at once. What the image notes later is taken up by the
    next call.
    """

    def __init__(self, image: ProcessImage, source: bool = False) -> None:
        """Use `image`, which stays open as long as this; `source` asks for inlined
        functions and file:line, where there is debug information."""
        self._image = image
        self._source = source
        self._dwfl: DwflPointer | Null = ffi.NULL
        self._unwinder: UnwinderPointer | Null = ffi.NULL
        self._generation = -1
        self._reported: tuple[int, ...] = ()
        self._rows: dict[tuple[Mapping, int], UnwindRows | None] = {}

    def unwind(
        self,
        registers: tuple[int, ...],
        stack: bytes | memoryview,
        base: int,
        missing_pages: int = 0,
    ) -> Stack:
        """Find the call chain of a thread of the process, as of when it was stopped.

        `registers` are in DWARF's order for the process's `machine`: x86-64 rax,
        rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8…r15, rip (System V ABI, figure 3.36),
        i386 eax, ecx, edx, ebx, esp, ebp, esi, edi, eip (its Intel386 supplement,
        table 2.14), arm64 x0…x30, sp, pc (AADWARF64). `stack` is a copy of the
        memory from address `base` up, as long as there was; `base` is the stack
        pointer or below it. A bit in
        `missing_pages` stands for each page of 4 KiB, from that of `base` on,
        whose content is not known. Elsewhere only read-only sections of the object files are known.
        """
        self._refresh()
        self._set_trampolines()
        words = ffi.new("uint64_t[]", registers)
        copy = ffi.from_buffer("uint8_t[]", stack)
        out = self._unwound
        missing = ffi.new("uint64_t[]", _words(missing_pages))
        lib.unwinder_set_stack(self._unwinder, base, copy, len(stack), missing)
        lib.unwinder_unwind(self._unwinder, words, len(registers), out)
        pcs = tuple(ffi.unpack(out.pcs, out.n))
        exact = tuple(map(bool, ffi.unpack(out.exact, out.n)))
        found = Stack(pcs, exact, ENDS[out.end])
        return found if found.end == "whole" or not pcs else self._ended_by_go(found)

    def frames(self, stack: Stack) -> tuple[Frame, ...]:
        """Name a stack's frames, each preceded by the functions inlined into it."""
        self._refresh()
        frames: list[Frame] = []
        for pc, exact in zip(stack.pcs, stack.exact, strict=True):
            frames += self._symbolise(pc, exact)
        return tuple(frames)

    def _ended_by_go(self, stack: Stack) -> Stack:
        """Whole, if it ends in a function of Go's that has no caller: stripped files don't say."""
        address = stack.pcs[-1] - (not stack.exact[-1])
        module = lib.dwfl_addrmodule(self._dwfl, address)
        function = self._find_go_function(address, self._objects[module]) if module else None
        is_whole = function is not None and function[0] in OUTERMOST
        return structs.replace(stack, end="whole") if is_whole else stack

    def _set_trampolines(self) -> None:
        perf_map = self._image.perf_map
        reported = perf_map.trampolines if perf_map else ()
        if reported is self._reported:
            return
        self._reported = reported
        self._trampolines = ffi.new("uint64_t[]", reported)
        lib.unwinder_set_trampolines(self._unwinder, self._trampolines, len(reported) // 2)

    def large_frames(self, smallest: int, most: int) -> list[LargeFrame]:
        """List code whose functions' frames are large.

        The frame begins right above a return address into that code. Sorted;
        of more than `most` the largest frames. Only those of x86-64 are known.
        Where the search takes longer than FRAMES_NS those found until then.
        """
        self._refresh()
        rows = ffi.new("struct frame_rows[]", most)
        found: list[LargeFrame] = []
        deadline_ns = time.monotonic_ns() + FRAMES_NS
        for module in self._objects:
            count = lib.module_large_frames(module, smallest, rows, most, deadline_ns)
            found += [(row.start, row.end, row.size, row.function) for row in rows[0:count]]
        if time.monotonic_ns() >= deadline_ns:
            self._image.bounds.pass_over(
                "the frames of some functions are copied whole: telling"
                " the large ones takes too long"
            )
        found.sort(key=_frame_size, reverse=True)
        return sorted(found[:most])

    def unwind_ranges(self, most: int) -> tuple[CodeRange, ...]:
        """List what is code now and how its callers are found, sorted; at most so many.

        Code is left out whose file has information that the kernel can't use: see
        module_unwind_rows(). None is for another machine than x86-64.
        """
        self._refresh()
        if self.machine != "x86_64":
            return ()
        self._make_rows()
        latest = (code for code in self._image.latest if code.executable)
        found = (self._unwind_range(code) for code in sorted(latest, key=_start))
        return tuple(each for each in found if each is not None)[:most]

    def _make_rows(self) -> None:
        known, self._rows = self._rows, {}
        deadline_ns, room = time.monotonic_ns() + ROWS_NS, UNWIND_ROWS
        for module, found in self._objects.items():
            key = found.code, found.bias
            rows = known.get(key)
            if rows is None:
                with suppress(NoRowsError):
                    rows = UnwindRows.make(module, deadline_ns)
            room -= len(rows) if rows else 0
            self._rows[key] = rows if room >= 0 else None
            if (not rows or room < 0) and lib.module_has_eh_frame(module):
                self._image.bounds.pass_over(
                    f"stacks with {encodable(found.code.path)} in them are copied:"
                    " how its functions are unwound is too much, or too unusual"
                )

    def _unwind_range(self, code: Mapping) -> CodeRange | None:
        module = lib.dwfl_addrmodule(self._dwfl, code.start)
        found = self._objects.get(module) if module else None
        if found is None or found.code.file != code.file:
            # CPython's trampolines have no frame pointers, and call others that have.
            is_generated = not code.inode and not code.path.startswith("[v") and not self._reported
            return CodeRange(code.start, code.end, None) if is_generated else None
        rows = self._rows[found.code, found.bias]
        if rows is None and lib.module_has_eh_frame(module):
            return None
        return CodeRange(code.start, code.end, rows)

    @property
    def machine(self) -> Machine:
        """What the process's code is for: this machine, or 32-bit programs that it can run."""
        return machine_of(self._image)

    def symbolise(self, pc: int, exact: bool = True) -> tuple[Frame, ...]:
        """Name one address; a return address (not `exact`) by the call before it."""
        self._refresh()
        return self._symbolise(pc, exact)

    def close(self) -> None:
        """Give the library's memory and files back."""
        if self._dwfl:
            lib.modules_free(self._dwfl)
            lib.unwinder_free(self._unwinder)
        self._dwfl = self._unwinder = ffi.NULL

    def _symbolise(self, pc: int, exact: bool) -> tuple[Frame, ...]:
        address = pc if exact else pc - 1
        if not lib.dwfl_addrmodule(self._dwfl, address):
            return (self._generated(pc, address),)
        frames = self._named.get((pc, exact))
        if frames is None:
            frames = self._named[pc, exact] = self._look_up(pc, address)
        return frames

    def _look_up(self, pc: int, address: int) -> tuple[Frame, ...]:
        module = lib.dwfl_addrmodule(self._dwfl, address)
        found = self._objects[module]
        offset = ffi.new("GElf_Off *")
        symbol = ffi.new("GElf_Sym *")
        name = lib.dwfl_module_addrinfo(
            module, address, offset, symbol, ffi.NULL, ffi.NULL, ffi.NULL
        )
        if not name:
            return (self._go_function(pc, address, found),)
        plain = text(name).partition("@")[0]  # clock_nanosleep@GLIBC_2.2.5 without its version
        frame = Frame(pc, plain, offset[0] + pc - address, _printed(found))
        return source_frames(module, address, frame) if self._source else (frame,)

    def _generated(self, pc: int, address: int) -> Frame:
        """Name code that is of no file. It may be other code soon, so nothing is kept."""
        perf_map = self._image.perf_map
        found = perf_map.find(address) if perf_map else None
        if perf_map is None or found is None:
            return Frame(pc, None, 0, self._mapped(address))
        name, offset = found
        return Frame(pc, name, offset + pc - address, perf_map.path)

    def _go_function(self, pc: int, address: int, found: ObjectFile) -> Frame:
        """Name code that no symbol covers, in a Go program by its own table."""
        function = self._find_go_function(address, found)
        if function is None:
            return Frame(pc, None, pc - found.bias, _printed(found))
        name, offset = function
        return Frame(pc, name, offset + pc - address, _printed(found))

    def _find_go_function(self, address: int, found: ObjectFile) -> tuple[str, int] | None:
        if found.code not in self._go:
            self._go[found.code] = GoFunctions.read(found.fd, found.code.path, self._image.bounds)
        functions = self._go[found.code]
        return functions.find(address - found.bias) if functions else None

    def _mapped(self, address: int) -> str | None:
        return mapped_object(self._code.find(address))

    def _refresh(self) -> None:
        if self._generation == self._image.generation:
            return
        self.close()
        self._unwound = ffi.new("struct unwound *")
        self._named: dict[tuple[int, bool], tuple[Frame, ...]] = {}
        self._objects: dict[DwflModulePointer, ObjectFile] = {}
        self._go: dict[Mapping, GoFunctions | None] = {}
        self._image.bounds.table_bytes = 0
        self._code = code_ranges(self._image.mappings)
        # The unwinder reads these as long as it lives.
        self._executable = ffi.new("uint64_t[]", _executable(self._image.mappings))
        self._dwfl = lib.modules_begin()
        if not self._dwfl:
            raise MemoryError
        machine = MACHINES[self.machine]
        for found in self._image.objects:
            # libdwfl takes one for all.
            if found.machine == machine:
                self._report(found)
        pid, ranges = self._image.pid, len(self._executable) // 2
        if not lib.modules_reported(self._dwfl):
            self._unwinder = lib.unwinder_new(self._dwfl, pid, self._executable, ranges)
        if not self._unwinder:
            reason = text(lib.dwfl_errmsg(-1))
            raise UnavailableError(f"can't unwind the stacks of process {pid}: {reason}")
        self._reported = ()
        self._generation = self._image.generation

    def _report(self, found: ObjectFile) -> None:
        name = os.fsencode(found.code.path)
        module = lib.modules_add(self._dwfl, name, os.dup(found.fd), found.bias)
        if not module:
            return
        self._objects[module] = found
        if found.debug:
            alt = found.debug.alt_link
            lib.module_add_debug(
                module,
                os.dup(found.debug.fd),
                os.fsencode(found.debug.path),
                os.dup(found.debug.alt_fd) if found.debug.alt_fd is not None else -1,
                os.fsencode(alt.name) if alt else ffi.NULL,
            )


def _frame_size(frame: LargeFrame) -> int:
    return frame[2]


def _words(bits: int) -> list[int]:
    """A number's bits as the words of a bitmap; those past it are left out."""
    return [bits >> 64 * word & (1 << 64) - 1 for word in range(lib.MISSING_WORDS)]


def machine_of(image: ProcessImage) -> Machine:
    """The first of MACHINES that there is code for: a 64-bit program's files may be of both."""
    found = {each.machine for each in image.objects}
    return next((name for name, number in MACHINES.items() if number in found), "x86_64")


def mapped_object(mapping: Mapping | None) -> str | None:
    """Return what a Frame has as its object where no file is known."""
    return (encodable(mapping.path) or "[anon]") if mapping else None


def executable_ranges(image: ProcessImage) -> list[tuple[int, int]]:
    """List the ranges of addresses that code is mapped at, sorted."""
    ranges = _executable(image.mappings)
    return list(zip(ranges[::2], ranges[1::2], strict=True))


def _printed(found: ObjectFile) -> str:
    return encodable(found.code.path) + (f" ({found.state})" if found.state else "")


def _start(mapping: Mapping) -> int:
    return mapping.start


def _executable(mappings: tuple[Mapping, ...]) -> list[int]:
    """The executable ranges, sorted and merged: start, end, start, end…"""
    ranges: list[int] = []
    for mapping in sorted(mappings, key=_start):
        if not mapping.executable:
            continue
        if ranges and mapping.start <= ranges[-1]:
            ranges[-1] = max(ranges[-1], mapping.end)
        else:
            ranges += [mapping.start, mapping.end]
    return ranges
