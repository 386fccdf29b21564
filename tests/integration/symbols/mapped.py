"""Files as if a process had their code mapped: no process is needed to unwind in them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernel_delay.symbols import AddressSpace
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.elf import read_elf
from kernel_delay.symbols.mappings import Mapping
from kernel_delay.symbols.object_files import ObjectFile


def object_of(file: Path, bias: int, name: str) -> ObjectFile:
    """What ProcessImage would note of the file's code if that were mapped there."""
    fd = os.open(file, os.O_RDONLY)
    elf = read_elf(fd)
    assert elf
    code = next(segment for segment in elf.segments if segment.executable)
    start = bias + code.address
    end = start + code.size
    mapping = Mapping(start, end, True, False, code.offset, "fe:00", 1, name, False)
    return ObjectFile(mapping, bias, elf.machine, elf.build_id, "", 0, fd, None)


def image_of(*objects: ObjectFile, bounds: Bounds | None = None) -> Any:
    """A process's that has them mapped."""
    return SimpleNamespace(
        pid=1,
        mappings=tuple(found.code for found in objects),
        latest=tuple(found.code for found in objects),
        objects=objects,
        generation=1,
        bounds=bounds or Bounds(),
        perf_map=None,
    )


@contextlib.contextmanager
def space_of(*objects: ObjectFile, bounds: Bounds | None = None) -> Iterator[AddressSpace]:
    """A process's that has them mapped; they are closed with it."""
    space = AddressSpace(image_of(*objects, bounds=bounds))
    try:
        yield space
    finally:
        space.close()
        for found in objects:
            os.close(found.fd)
