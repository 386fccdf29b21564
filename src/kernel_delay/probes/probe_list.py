"""What can be a trigger, listed: each with the text to give to --start-trigger."""

from typing import Literal

from msgspec import Struct

from kernel_delay.probes.arguments import Argument


class ListedArgument(Struct, frozen=True):
    """A USDT probe's argument, decoded and in words."""

    words: str
    decoded: Argument


class ListedUsdt(Struct, frozen=True):
    """One place of a USDT probe; addresses are those that the object's own headers use."""

    trigger: str
    provider: str
    name: str
    object: str
    address: int
    file_offset: int
    semaphore_address: int | None
    arguments: tuple[ListedArgument, ...]


class ListedFunction(Struct, frozen=True):
    """A function of an object, at `file_offset`.

    The trigger names it by that offset where another function has its name.
    """

    trigger: str
    name: str
    object: str
    file_offset: int


class ProbeList(Struct, frozen=True):
    """Lists that were asked for, each None where it was not.

    `kernel` and `tracepoints` are triggers. `remarks` are lines that say what
    a list lacks, and why.
    """

    schema: Literal["kernel-delay-probes/1"] = "kernel-delay-probes/1"
    usdt: tuple[ListedUsdt, ...] | None = None
    functions: tuple[ListedFunction, ...] | None = None
    kernel: tuple[str, ...] | None = None
    tracepoints: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()
