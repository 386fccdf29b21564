"""What is read of an ELF file's headers, against pyelftools."""

import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernel_delay.elf.files import read_alt_link, read_elf, read_elf_image
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


@pytest.mark.parametrize("size", [0, 4, 16, 51, 52, 63])
@pytest.mark.parametrize("elf_class", [0, 1, 2, 3])
def test_what_is_too_short_is_no_file(size: int, elf_class: int) -> None:
    image = (b"\x7fELF" + bytes([elf_class, 1]) + bytes(64))[:size]
    found = read_elf_image(image)
    assert (found is not None) == (elf_class == 1 and size >= 52)
