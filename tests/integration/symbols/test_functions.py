"""Where a file's functions are, from each of the symbol tables there can be."""

import re
import subprocess
from pathlib import Path

import pytest

from kernel_delay.errors import InputError, NoInputError
from kernel_delay.symbols import Functions
from tests.integration.symbols.call_chains import build, gcc, gcc_library
from tests.needs import needed


@pytest.fixture
def program(tmp_path: Path) -> Path:
    needed("gcc")
    return build(tmp_path)


def debug_of(program: Path) -> Path:
    return program.parent / ".debug" / f"{program.name}.debug"


def bytes_at(file: Path, offset: int) -> bytes:
    return file.read_bytes()[offset : offset + 16]


def run(*command: object) -> str:
    arguments = [str(word) for word in command]
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def offset_by_readelf(debug: Path, program: Path, name: str) -> int:
    """The symbol's place in its section, and the section's in the file."""
    symbol = re.search(
        rf" ([0-9a-f]+) +\d+ FUNC .* (\d+) {name}$", run("readelf", "-sW", debug), re.M
    )
    assert symbol
    section = re.search(
        rf"\[ *{symbol[2]}\] \S+ +\S+ +([0-9a-f]+) ([0-9a-f]+)", run("readelf", "-SW", program)
    )
    assert section
    return int(symbol[1], 16) - int(section[1], 16) + int(section[2], 16)


def test_a_separate_debug_file_by_debug_link(program: Path) -> None:
    functions = Functions.open(str(program))
    expected = offset_by_readelf(debug_of(program), program, "recurse")
    assert [function.file_offset for function in functions.find("recurse")] == [expected]
    assert not functions.stripped


def test_build_id_finds_a_debug_file_below_a_root(program: Path, tmp_path: Path) -> None:
    build_id = Functions.open(str(program)).build_id
    assert build_id
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    program.rename(root / "bin" / "program")
    directory = root / "usr/lib/debug/.build-id" / build_id.hex()[:2]
    directory.mkdir(parents=True)
    debug_of(program).rename(root / "debug")
    (directory / f"{build_id.hex()[2:]}.debug").symlink_to("/debug")
    functions = Functions.open("/bin/program", root)
    expected = offset_by_readelf(root / "debug", root / "bin/program", "recurse")
    assert [function.file_offset for function in functions.find("recurse")] == [expected]


def test_a_debug_file_with_another_crc_is_not_used(tmp_path: Path) -> None:
    program = build(tmp_path)
    run("objcopy", "--remove-section=.note.gnu.build-id", program)
    run("objcopy", "--remove-section=.note.gnu.build-id", debug_of(program))
    run("objcopy", "--remove-section=.gnu_debuglink", program)
    run("objcopy", f"--add-gnu-debuglink={debug_of(program)}", program)
    assert Functions.open(str(program)).find("recurse")
    with debug_of(program).open("ab") as debug:
        debug.write(b"\0")
    assert not Functions.open(str(program)).find("recurse")


def test_minimal_debug_information(program: Path) -> None:
    """As Fedora's find-debuginfo makes it: the function symbols, compressed, in a section."""
    needed("xz")
    expected = offset_by_readelf(debug_of(program), program, "recurse")
    mini = program.with_name("mini")
    run(
        "objcopy",
        "-S",
        "--remove-section=.comment",
        "--keep-symbol=recurse",
        debug_of(program),
        mini,
    )
    run("xz", mini)
    run("objcopy", f"--add-section=.gnu_debugdata={mini}.xz", program)
    debug_of(program).unlink()
    functions = Functions.open(str(program))
    assert [function.file_offset for function in functions.find("recurse")] == [expected]
    assert not functions.stripped


def test_a_stripped_library_has_its_exported_functions_only(program: Path) -> None:
    library = program.with_name("libcall_chain.so")
    debug = debug_of(library)
    expected = offset_by_readelf(debug, library, "library_enter")
    debug.unlink()
    functions = Functions.open(str(library))
    assert [function.file_offset for function in functions.find("library_enter")] == [expected]
    assert not functions.find("library_inner")
    assert functions.stripped


def test_functions_of_one_name_are_all_found(tmp_path: Path) -> None:
    parts = []
    for name in ("first", "second"):
        source = tmp_path / f"{name}.c"
        source.write_text(
            f"static __attribute__((noipa)) int twin(void) {{ return {len(name)}; }}\n"
            f"int {name}(void) {{ return twin() + 1; }}\n"
        )
        parts.append(source)
    library = tmp_path / "twins.so"
    gcc(library, "-shared", "-fPIC", *parts)
    found = Functions.open(str(library)).find("twin")
    assert len({function.file_offset for function in found}) == 2


def test_listing_and_the_closest_names(program: Path) -> None:
    functions = Functions.open(str(program))
    listed = functions.matching("inlined*") + functions.matching("with_*")
    assert [function.name for function in listed] == ["inlined", "with_alloca"]
    assert functions.similar("recursoin")[0] == "recursion"
    assert functions.similar("#") == ()


def test_the_offset_is_where_the_code_is(tmp_path: Path) -> None:
    """In a program linked with each segment at its own distance from its file offset."""
    source = tmp_path / "known.c"
    source.write_text(
        '__asm__(".text\\n.globl known\\n.type known,@function\\n'
        'known: .ascii \\"here it is known\\"\\n.size known,.-known");\n'
        "int main(void) { return 0; }\n"
    )
    program = tmp_path / "known"
    gcc(program, source, "-no-pie", "-Wl,-Ttext-segment=0x10000000", "-Wl,-z,separate-code")
    (known,) = Functions.open(str(program)).find("known")
    assert bytes_at(program, known.file_offset) == b"here it is known"


def test_what_is_not_there_or_no_elf_file(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="can't open /nowhere"):
        Functions.open("/nowhere")
    text = tmp_path / "text"
    text.write_text("no ELF file")
    with pytest.raises(InputError, match="not an ELF file"):
        Functions.open(str(text))
    gcc_library(tmp_path / "cut.so")
    (tmp_path / "cut.so").write_bytes((tmp_path / "cut.so").read_bytes()[:70])
    assert Functions.open(str(tmp_path / "cut.so")).matching("*") == ()
