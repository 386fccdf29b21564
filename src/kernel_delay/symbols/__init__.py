"""User and kernel addresses to names, and unwinding.

`Functions` lists an ELF file's functions. Nothing here knows BPF or prints.
"""

from kernel_delay.symbols.functions import Function, Functions

__all__ = ["Function", "Functions"]
