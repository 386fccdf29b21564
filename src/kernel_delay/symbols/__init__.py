"""Addresses, and functions, of programs and of the kernel: to names; and unwinding.

A `ProcessImage` notes a process's code while it lives; an `AddressSpace` on it
unwinds copies of its stacks and names the frames, also after its exit. The tool has that
done by another process: `AddressSpaceApart`.
`KernelSymbols` names kernel addresses, `Functions` lists an ELF file's
functions. Nothing here knows BPF or prints.
"""

from kernel_delay.symbols.address_space import AddressSpace, LargeFrame, Machine
from kernel_delay.symbols.apart import AddressSpaceApart, start_parsers
from kernel_delay.symbols.frames import Frame, Stack, StackEnd
from kernel_delay.symbols.functions import Function, Functions
from kernel_delay.symbols.kernel import KernelSymbols
from kernel_delay.symbols.process_image import ProcessImage
from kernel_delay.symbols.unwind_rows import CodeRange

__all__ = [
    "AddressSpace",
    "AddressSpaceApart",
    "CodeRange",
    "Frame",
    "Function",
    "Functions",
    "KernelSymbols",
    "LargeFrame",
    "Machine",
    "ProcessImage",
    "Stack",
    "StackEnd",
    "start_parsers",
]
