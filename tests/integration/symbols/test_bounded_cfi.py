"""Call frame information that is made to take long: what it costs is bounded, whatever it says."""

import platform
import struct
import subprocess
from pathlib import Path

import pytest

from kernel_delay.symbols.bounds import Bounds
from tests.integration.symbols import mapped
from tests.needs import needed

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the functions are assembled for x86-64"
)

BIAS = 0x7F00_0000_0000
SP = 0x7FFD_0000_0000
RIP, RSP = 16, 7

# A function that has nothing on the stack but where it returns to.
SOURCE = """
.cfi_sections {section}
.globl function
function:
.cfi_startproc
{cfi}
nop
nop
.cfi_endproc
"""

# Where libdw finds the information: by a table, by going through it, in the debug information.
PLACES = {
    "table": (".eh_frame", "-Wl,--eh-frame-hdr"),
    "no table": (".eh_frame", "-Wl,--no-eh-frame-hdr"),
    "debug": (".debug_frame", "-Wl,--no-eh-frame-hdr"),
}

# DWARF 5, 7.7.1 and 7.24. Register 3, rbx, is of no use to find the caller.
HOSTILE = {
    "register": ".cfi_escape 0x05, 0xc0, 0x84, 0x3d, 1",  # 1,000,000 is saved
    "remembered": ".rept 1000\n.cfi_remember_state\n.endr",
    "long": ".rept 40000\n.cfi_escape 0x0e, 8\n.endr",
    "long expression": ".cfi_escape 0x16, 3, 0x80, 0x04\n.rept 512\n.cfi_escape 0x30\n.endr",
    "loop": ".cfi_escape 0x16, 3, 3, 0x2f, 0xfd, 0xff",
    "cfa of the cfa": ".cfi_escape 0x16, 3, 1, 0x9c",
    # Where libdwfl 0.188 crashes: DW_OP_breg7 8, DW_OP_lit0, DW_OP_deref_size 8, …
    "deref_size": ".cfi_escape 0x0f, 7, 0x77, 8, 0x77, 0, 0x94, 8, 0x13",
}

# Each of its instructions is fine, and so are all of one function.
COSTLY = ".rept 30000\n.cfi_escape 0x0e, 8\n.endr"


def assembled(folder: Path, cfi: str, place: str) -> Path:
    section, option = PLACES[place]
    source, file = folder / "function.s", folder / "function.so"
    source.write_text(SOURCE.format(section=section, cfi=cfi))
    flags = ("-nostdlib", "-shared", "-Wl,--build-id", option)
    subprocess.run([needed("gcc"), *flags, str(source), "-o", str(file)], check=True)
    return file


def unwound(file: Path, calls: int) -> tuple[int, str, tuple[str, ...]]:
    """How many frames there are of so many calls, why the stack ends, and what is remarked."""
    out = subprocess.run(["nm", file], check=True, capture_output=True, text=True).stdout
    start = next(int(line.split()[0], 16) for line in out.splitlines() if "function" in line)
    inside = BIAS + start + 1
    registers = [0] * 17
    registers[RSP], registers[RIP] = SP, inside
    stack = struct.pack(f"<{calls}Q", *[inside] * (calls - 1), 0)
    bounds = Bounds()
    found = mapped.object_of(file, BIAS, "/function.so")
    with mapped.space_of(found, bounds=bounds) as space:
        got = space.unwind(tuple(registers), stack, SP)
        # libdw keeps what it was told, so once more.
        assert space.unwind(tuple(registers), stack, SP) == got
        assert space.large_frames(16, 8) == []
    assert set(got.pcs) == {inside}
    return len(got.pcs), got.end, bounds.take_remarks()


@pytest.mark.parametrize("place", PLACES)
def test_what_compilers_write_is_followed(place: str, tmp_path: Path) -> None:
    cfi = ".cfi_remember_state\n.cfi_restore_state\n.cfi_escape 0x16, 3, 2, 0x77, 0"
    file = assembled(tmp_path, cfi, place)
    assert unwound(file, 900) == (900, "whole", ())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_take_long_is_not_begun(name: str, place: str, tmp_path: Path) -> None:
    frames, end, remarks = unwound(assembled(tmp_path, HOSTILE[name], place), 3)
    assert (frames, end) == (1, "lost")
    assert remarks == (
        "stacks end in /function.so: what it says of its functions' callers would take too long"
        " to follow",
    )


@pytest.mark.parametrize("place", PLACES)
def test_what_would_take_long_in_all_is_ended(place: str, tmp_path: Path) -> None:
    file = assembled(tmp_path, COSTLY, place)
    assert unwound(file, 10) == (10, "whole", ())
    frames, end, remarks = unwound(file, 900)
    # 60,000 bytes for each but the last, of 1 MiB.
    assert (frames, end, len(remarks)) == (18, "lost", 1)
