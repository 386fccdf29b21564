"""Which rule finds the caller from where in a file: its .eh_frame, made for the kernel to use."""

from typing import TYPE_CHECKING, Self

from msgspec import Struct

from kernel_delay.symbols._libdw import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.cdata import Pointer
    from kernel_delay.symbols._libdw import DwflModulePointer

WORD = 8


class NoRowsError(Exception):
    """The file has no call frame information, or none that the kernel can use."""


class UnwindRows(Struct, frozen=True, eq=False):
    """A file's rows and the rules that they name, as bpf/event_records.h has them.

    Attributes:
        bias: What is added to the file's addresses to get those in memory.
        rows: 8 bytes each.
        rules: Each a struct unwind_rule.
    """

    bias: int
    rows: bytes
    rules: bytes

    @classmethod
    def make(cls, module: "DwflModulePointer", deadline_ns: int) -> Self:
        """Make them; raises NoRowsError where there are none: see module_unwind_rows()."""
        made = lib.module_unwind_rows(module, deadline_ns)
        if made == ffi.NULL:
            raise NoRowsError
        try:
            rows = bytes(ffi.buffer(made.rows, WORD * made.n_rows))
            rules = bytes(ffi.buffer(made.rules, WORD * made.n_rules))
            return cls(made.bias, rows, rules)
        finally:
            lib.unwind_rows_free(made)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.rows) // WORD

    def copy(self, first_rule: int, to: "Pointer[int]") -> None:
        """Copy the rows to whole entries; their rules are numbered from `first_rule` on."""
        rows = ffi.from_buffer("uint64_t[]", self.rows)
        lib.unwind_rows_copy(rows, len(self), first_rule, to)


class CodeRange(Struct, frozen=True):
    """Code that is mapped at [start, end), and its rows; None: frames are found by pointers."""

    start: int
    end: int
    rows: UnwindRows | None
