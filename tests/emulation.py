"""What tests do less of where the CPU is emulated, and everything is slow."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

Variant = TypeVar("Variant")

DIVISOR = 20
"""QEMU's TCG runs a uprobe's trap, and all else, some 10 to 30 times slower than a CPU does."""


QEMU_CPU = re.compile(r"QEMU TCG CPU|^CPU part\s*: 0x051$", re.MULTILINE)
"""On x86-64 it has a model name of its own, on arm64 a part number ("Q", QEMU 7.2's cpu64.c)."""


def is_emulated() -> bool:
    """Whether this machine's CPU is QEMU's TCG."""
    return QEMU_CPU.search(Path("/proc/cpuinfo").read_text()) is not None


def scaled(count: int) -> int:
    """Return `count`, or where the CPU is emulated a twentieth of it."""
    return count // DIVISOR if is_emulated() else count


def few(variants: Sequence[Variant], step: int) -> list[Variant]:
    """Return all variants of a test, or where the CPU is emulated each `step`th."""
    return list(variants[::step] if is_emulated() else variants)
