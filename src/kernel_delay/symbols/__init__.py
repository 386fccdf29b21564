"""User and kernel addresses to names, and unwinding.

`KernelSymbols` names kernel addresses, `Functions` lists an ELF file's
functions. Nothing here knows BPF or prints.
"""

from kernel_delay.symbols.frames import Frame, Stack
from kernel_delay.symbols.functions import Function, Functions
from kernel_delay.symbols.kernel import KernelSymbols

__all__ = ["Frame", "Function", "Functions", "KernelSymbols", "Stack"]
