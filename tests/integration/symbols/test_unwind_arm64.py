"""arm64's registers and signed return addresses, on any machine that can build for arm64."""

import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel_delay.elf.files import read_elf
from kernel_delay.symbols import AddressSpace
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.mappings import Mapping
from kernel_delay.symbols.object_files import ObjectFile
from tests.needs import needed
from tests.workload import SOURCES

BIAS = 0xAAAA_0000_0000
SP = 0xFFFF_F000_1000
SIGNATURE = 0x002A << 48


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = needed("aarch64-linux-gnu-gcc")
    program = tmp_path_factory.mktemp("arm64") / "chain"
    source = SOURCES / "arm64_chain.S"
    command = [
        compiler,
        "-nostdlib",
        "-shared",
        "-Wl,-e,_start",
        str(source),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    return program


def image_of(program: Path) -> Any:
    """What ProcessImage would note of a process that had the program's code mapped at BIAS."""
    file = program.open("rb")
    elf = read_elf(file.fileno())
    assert elf
    code = next(segment for segment in elf.segments if segment.executable)
    start = BIAS + code.address
    end = start + code.size
    mapping = Mapping(start, end, True, False, code.offset, "fe:00", 1, str(program), False)
    found = ObjectFile(mapping, BIAS, elf.machine, elf.build_id, "", 0, file.fileno(), None)
    return SimpleNamespace(
        pid=1,
        mappings=(mapping,),
        objects=(found,),
        generation=1,
        bounds=Bounds(),
        perf_map=None,
        file=file,
    )


def labels(program: Path) -> dict[str, int]:
    out = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in out.splitlines()]
    return {words[2]: BIAS + int(words[0], 16) for words in lines if len(words) == 3}


@pytest.mark.parametrize("signature", [0, SIGNATURE], ids=["plain", "signed"])
def test_registers_and_signed_return_addresses(program: Path, signature: int) -> None:
    at = labels(program)
    image = image_of(program)
    registers = [0] * 33
    registers[30] = at["after_leaf"]
    registers[31] = SP
    registers[32] = at["leaf"] + 4
    # plain's frame of 16 bytes, then signs's of 32.
    stack = struct.pack("<6Q", at["after_plain"], 0, 0x29, signature | at["after_signs"], 0, 0)
    space = AddressSpace(image)
    unwound = space.unwind(tuple(registers), stack, SP)
    assert unwound.pcs == (
        at["leaf"] + 4,
        at["after_leaf"],
        at["after_plain"],
        at["after_signs"],
    )
    assert unwound.end == "whole"
    names = [frame.name for frame in space.frames(unwound)]
    assert names == ["leaf", "plain", "signs", "_start"]
    assert space.unwind(tuple(registers), stack[:16], SP).end == "short"
    space.close()
    image.file.close()
