"""arm64's registers and signed return addresses, on any machine that can build for arm64."""

import struct
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kernel_delay.symbols import AddressSpace
from tests.integration.symbols import mapped
from tests.needs import needed
from tests.workload import SOURCES

BIAS = 0xAAAA_0000_0000
VDSO_BIAS = 0xFFFF_9000_0000
SP = 0xFFFF_F000_1000
SIGNATURE = 0x002A << 48
# struct rt_sigframe with what else the kernel keeps of the registers, roughly.
SIGNAL_FRAME = 4688


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembled("arm64_chain.S", tmp_path_factory.mktemp("arm64") / "chain", "-Wl,-e,_start")


@pytest.fixture(scope="module")
def vdso(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembled("arm64_vdso.S", tmp_path_factory.mktemp("arm64") / "vdso")


def assembled(source: str, program: Path, *flags: str) -> Path:
    compiler = needed("aarch64-linux-gnu-gcc")
    command = [compiler, "-nostdlib", "-shared", *flags, str(SOURCES / source), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def space_of(program: Path, vdso: Path) -> AbstractContextManager[AddressSpace]:
    """A process's that had both mapped."""
    return mapped.space_of(
        mapped.object_of(program, BIAS, str(program)), mapped.object_of(vdso, VDSO_BIAS, "[vdso]")
    )


def labels(program: Path, bias: int = BIAS) -> dict[str, int]:
    out = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in out.splitlines()]
    return {words[2]: bias + int(words[0], 16) for words in lines if len(words) == 3}


@pytest.mark.parametrize("signature", [0, SIGNATURE], ids=["plain", "signed"])
def test_registers_and_signed_return_addresses(program: Path, vdso: Path, signature: int) -> None:
    at = labels(program)
    registers = [0] * 33
    registers[30] = at["after_leaf"]
    registers[31] = SP
    registers[32] = at["leaf"] + 4
    # plain's frame of 16 bytes, then signs's of 32.
    stack = struct.pack("<6Q", at["after_plain"], 0, 0x29, signature | at["after_signs"], 0, 0)
    with space_of(program, vdso) as space:
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


def test_the_vdso_is_left_without_unwind_information(program: Path, vdso: Path) -> None:
    """Its function has called the kernel for plain, and plain's frame is none of its own."""
    at, bare = labels(program), labels(vdso, VDSO_BIAS)
    registers = [0] * 33
    registers[29] = SP + 16
    registers[30] = SIGNATURE | at["after_leaf"]
    registers[31] = SP
    registers[32] = bare["after_call"]
    stack = struct.pack("<6Q", at["after_plain"], 0, 0x29, at["after_signs"], 0, 0)
    with space_of(program, vdso) as space:
        unwound = space.unwind(tuple(registers), stack, SP)
        names = [frame.name for frame in space.frames(unwound)]
    assert names == ["leaf", "plain", "signs", "_start"]
    assert unwound.end == "whole"


def test_vdso_frame_of_unknown_size_ends_the_stack(program: Path, vdso: Path) -> None:
    at, bare = labels(program), labels(vdso, VDSO_BIAS)
    registers = [0] * 33
    registers[29] = registers[31] = SP
    registers[30] = SIGNATURE | at["after_leaf"]
    registers[32] = bare["after_prologue"]
    stack = struct.pack("<6Q", 0, SIGNATURE | at["after_leaf"], 0, 0, at["after_plain"], 0)
    with space_of(program, vdso) as space:
        unwound = space.unwind(tuple(registers), stack, SP)
        assert [frame.name for frame in space.frames(unwound)] == ["framed"]
    assert unwound.end == "lost"


def test_a_signals_frame_leads_to_what_it_interrupted(program: Path, vdso: Path) -> None:
    """That is leaf; the handler is plain, which the signal's frame is above of."""
    at, bare = labels(program), labels(vdso, VDSO_BIAS)
    handler = [0] * 33
    handler[31] = SP
    handler[32] = at["after_leaf"]
    interrupted = [0] * 33
    interrupted[30] = at["after_leaf"]
    interrupted[31] = SP + 16 + SIGNAL_FRAME
    interrupted[32] = at["leaf"] + 4
    plain = struct.pack("<2Q", bare["__kernel_rt_sigreturn"], 0)
    signal = struct.pack("<33Q", *interrupted).rjust(312 + 33 * 8, b"\0").ljust(SIGNAL_FRAME, b"\0")
    rest = struct.pack("<6Q", at["after_plain"], 0, 0x29, at["after_signs"], 0, 0)
    with space_of(program, vdso) as space:
        unwound = space.unwind(tuple(handler), plain + signal + rest, SP)
        names = [frame.name for frame in space.frames(unwound)]
        assert names == ["plain", "__kernel_rt_sigreturn", "leaf", "plain", "signs", "_start"]
        assert unwound.end == "whole"
        short = space.unwind(tuple(handler), plain + signal[:400], SP)
    assert [pc in bare.values() for pc in short.pcs] == [False, True]
    assert short.end == "short"
