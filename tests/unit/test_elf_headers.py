"""What is read of an ELF file's headers, against pyelftools."""

import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernel_delay.errors import InputError
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.elf import (
    CLAIMED_BYTES,
    is_excessive,
    read_alt_link,
    read_elf,
    read_elf_image,
)
from kernel_delay.symbols.functions import Functions
from tests.needs import needed

MACHINES = {"gcc": (64, 62), "i686-linux-gnu-gcc": (32, 3), "aarch64-linux-gnu-gcc": (64, 183)}


@pytest.mark.parametrize("compiler", MACHINES)
def test_headers_of_either_class(compiler: str, tmp_path: Path) -> None:
    program, alt = tmp_path / "program", b"../alt\0" + b"\xbb" * 20
    (tmp_path / "alt").write_bytes(alt)
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    objcopy = needed(compiler.removesuffix("gcc") + "objcopy")
    command = [needed(compiler), str(source), "-o", str(program), f"-Wl,--build-id=0x{'aa' * 20}"]
    subprocess.run(command, check=True)
    command = [objcopy, f"--add-section=.gnu_debugaltlink={tmp_path / 'alt'}", str(program)]
    subprocess.run(command, check=True)
    linked = [objcopy, f"--add-gnu-debuglink={program}", str(program), str(tmp_path / "linked")]
    subprocess.run(linked, check=True)

    with (tmp_path / "linked").open("rb") as file:
        elf, alt_link = read_elf(file.fileno()), read_alt_link(file.fileno())
        oracle = ELFFile(file)
        loaded = [each.header for each in oracle.iter_segments("PT_LOAD")]
        section = oracle.get_section_by_name(".gnu_debuglink")
        crc = section.data()[-4:] if section else b""
        assert (oracle.elfclass, oracle["e_machine"]) == (MACHINES[compiler][0], _name(compiler))
    assert elf is not None
    assert elf.machine == MACHINES[compiler][1]
    assert [(one.offset, one.address, one.size, one.executable) for one in elf.segments] == [
        (one.p_offset, one.p_vaddr, one.p_filesz, bool(one.p_flags & 1)) for one in loaded
    ]
    assert elf.build_id == b"\xaa" * 20
    assert elf.debug_link is not None
    assert elf.debug_link.name == "program"
    assert elf.debug_link.crc == int.from_bytes(crc, "little")
    assert alt_link is not None
    assert alt_link.name == "../alt"
    assert alt_link.build_id == b"\xbb" * 20


def _name(compiler: str) -> str:
    names = {62: "EM_X86_64", 3: "EM_386", 183: "EM_AARCH64"}
    return names[MACHINES[compiler][1]]


SHT_PROGBITS, SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 1, 2, 8, 11
ALLOC_WRITE = 3
FIRST = 8 << 20
"""Where the sections' content begins: the headers of 65,000 are before that."""


def sparse_elf(
    path: Path, *, kind: int, size: int, count: int = 1, step: int = 0, flags: int = 0
) -> Path:
    """Write a program of so many sections of that size, a `step` apart, all in one hole."""
    names = b"\0.shstrtab\0.symtab\0"
    header = struct.pack("<16s2HI3QI6H", b"\x7fELF\2\1\1", 2, 62, 1, 0x400000, 64, 4096, 0,
                         64, 56, 1, 64, count + 2, 1)  # fmt: skip
    code = struct.pack("<2I6Q", 1, 5, 0, 0x400000, 0x400000, 4096, 4096, 4096)
    sections = bytearray(64)
    sections += struct.pack("<2I4Q2I2Q", 1, 3, 0, 0, 512, len(names), 0, 0, 1, 0)
    for number in range(count):
        offset = FIRST + number * step
        sections += struct.pack("<2I4Q2I2Q", 11, kind, flags, 0, offset, size, 1, 0, 8, 24)
    with path.open("wb") as file:
        file.write((header + code).ljust(512, b"\0") + names)
        file.seek(4096)
        file.write(sections)
        file.truncate(FIRST + (count - 1) * step + size)
    return path


@pytest.mark.parametrize("kind", [SHT_SYMTAB, SHT_DYNSYM, SHT_PROGBITS])
@pytest.mark.parametrize(
    ("count", "size", "step"), [(1, 3 << 30, 0), (65_000, 48_000, 48_000), (65_000, 48_000, 0)]
)
def test_a_hole_is_no_symbol_table(
    kind: int, count: int, size: int, step: int, tmp_path: Path
) -> None:
    """libdw would go through it, or copy it: it is given nothing of such a file."""
    path = sparse_elf(tmp_path / "sparse", kind=kind, count=count, size=size, step=step)
    assert path.stat().st_blocks * 512 < FIRST
    bounds = Bounds()
    with path.open("rb") as file:
        assert is_excessive(file.fileno())
        assert read_elf(file.fileno()) is None
        assert not bounds.may_read(file.fileno(), "sparse")
    why = "sparse is not used: it is too large, or its section headers claim too much"
    assert bounds.take_remarks() == (why,)
    with pytest.raises(
        InputError, match="is not used: it is too large, or its section headers claim"
    ):
        Functions.open(str(path))


def test_sections_with_contents_or_empty_on_purpose_are_read(tmp_path: Path) -> None:
    files = [
        sparse_elf(tmp_path / "data", kind=SHT_PROGBITS, size=1 << 30, flags=ALLOC_WRITE),
        sparse_elf(tmp_path / "bss", kind=SHT_NOBITS, size=1 << 30),
        sparse_elf(tmp_path / "small", kind=SHT_SYMTAB, size=CLAIMED_BYTES // 2),
    ]
    full = sparse_elf(tmp_path / "full", kind=SHT_SYMTAB, size=2 * CLAIMED_BYTES)
    with full.open("r+b") as file:
        file.seek(FIRST)
        file.write(b"x" * 2 * CLAIMED_BYTES)
    for path in (*files, full):
        with path.open("rb") as file:
            assert read_elf(file.fileno()) is not None


@pytest.mark.parametrize("size", [0, 4, 16, 51, 52, 63])
@pytest.mark.parametrize("elf_class", [0, 1, 2, 3])
def test_what_is_too_short_is_no_file(size: int, elf_class: int) -> None:
    image = (b"\x7fELF" + bytes([elf_class, 1]) + bytes(64))[:size]
    found = read_elf_image(image)
    assert (found is not None) == (elf_class == 1 and size >= 52)
