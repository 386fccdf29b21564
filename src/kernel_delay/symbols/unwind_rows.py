"""Which rule finds the caller from where in a file: its .eh_frame, made for the kernel to use."""

from typing import TYPE_CHECKING

from msgspec import Struct

from kernel_delay.symbols._libdw import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.cdata import Pointer
    from kernel_delay.symbols._libdw import DwflModulePointer

WORD = 8


class NoRowsError(Exception):
    """The file has no call frame information, or none that the kernel can use."""


class UnwindRows:
    """A file's rows and the rules that they name, as bpf/unwind/unwind_records.h has them."""

    def __init__(self, module: "DwflModulePointer", deadline_ns: int) -> None:
        """Make them; raises NoRowsError where there are none: see module_unwind_rows()."""
        made = lib.module_unwind_rows(module, deadline_ns)
        if made == ffi.NULL:
            raise NoRowsError
        self._rows = ffi.gc(made, lib.unwind_rows_free)
        self.bias = made.bias

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self._rows.n_rows

    def rows(self) -> bytes:
        """Return the rows, 8 bytes each."""
        return bytes(ffi.buffer(self._rows.rows, WORD * self._rows.n_rows))

    def rules(self) -> bytes:
        """Return the rules, each a struct unwind_rule."""
        return bytes(ffi.buffer(self._rows.rules, WORD * self._rows.n_rules))

    def copy(self, first_rule: int, to: "Pointer[int]") -> None:
        """Copy the rows to whole entries; their rules are numbered from `first_rule` on."""
        lib.unwind_rows_copy(self._rows, first_rule, to)


class CodeRange(Struct, frozen=True):
    """Code that is mapped at [start, end), and its rows; None: frames are found by pointers."""

    start: int
    end: int
    rows: UnwindRows | None
