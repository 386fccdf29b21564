"""What tests do less of where the CPU is emulated, and everything is slow."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

Variant = TypeVar("Variant")

DIVISOR = 20
"""QEMU's TCG runs a uprobe's trap, and all else, some 10 to 30 times slower than a CPU does."""


def is_emulated() -> bool:
    """Whether this machine's CPU is QEMU's TCG: it has a model name of its own."""
    return "QEMU TCG CPU" in Path("/proc/cpuinfo").read_text()


def scaled(count: int) -> int:
    """Return `count`, or where the CPU is emulated a twentieth of it."""
    return count // DIVISOR if is_emulated() else count


def few(variants: Sequence[Variant], step: int) -> list[Variant]:
    """Return all variants of a test, or where the CPU is emulated each `step`th."""
    return list(variants[::step] if is_emulated() else variants)
