"""USDT notes of compiled files, against readelf, bpftrace and the code itself."""

import re
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_delay.errors import InputError
from kernel_delay.probes.usdt import UsdtProbe, UsdtProbes, read_usdt_probes
from tests.integration.probes.usdt_workload import Workload
from tests.needs import needed

NOTE = re.compile(
    r"Provider: (?P<provider>.*)\n\s+Name: (?P<name>.*)\n"
    r"\s+Location: (?P<location>.*), Base: .*, Semaphore: (?P<semaphore>.*)\n"
    r"\s+Arguments: (?P<arguments>.*)\n"
)
X86_NOP = b"\x90"
ARM64_NOP = b"\x1f\x20\x03\xd5"


def read(path: Path) -> UsdtProbes:
    with path.open("rb") as file:
        return read_usdt_probes(file, path.name)


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def readelf_notes(path: Path) -> list[re.Match[str]]:
    return list(NOTE.finditer(output_of("readelf", "--wide", "--notes", path)))


def section(path: Path, name: str) -> range:
    """The file offsets of a section, from readelf."""
    output = output_of("readelf", "--wide", "--sections", path)
    found = re.search(rf" {re.escape(name)} +\w+ +\w+ (\w+) (\w+) ", output)
    assert found is not None, output
    start, size = (int(text, 16) for text in found.groups())
    return range(start, start + size)


def assert_as_readelf_says(path: Path, nop: bytes) -> tuple[UsdtProbe, ...]:
    found = read(path)
    notes = readelf_notes(path)
    assert notes
    assert found.malformed_notes == 0
    assert [(p.provider, p.name, p.address, p.semaphore_address or 0) for p in found.probes] == [
        (n["provider"], n["name"], int(n["location"], 16), int(n["semaphore"], 16)) for n in notes
    ]
    content = path.read_bytes()
    for probe, note in zip(found.probes, notes, strict=True):
        assert content[probe.file_offset :].startswith(nop)
        assert probe.file_offset in section(path, ".text")
        if probe.semaphore_offset is not None:
            assert probe.semaphore_offset in section(path, ".probes")
        assert len(probe.arguments) == note["arguments"].count("@")
    return found.probes


def test_executable(workload: Workload) -> None:
    probes = assert_as_readelf_says(workload.executable, X86_NOP)
    assert [probe.name for probe in probes].count("twice") == 2
    shapes = next(probe for probe in probes if probe.name == "shapes")
    assert [(a.size, a.sign) for a in shapes.arguments] == [
        (1, "signed"),
        (2, "unsigned"),
        (4, "signed"),
        (8, "signed"),
        (8, "signed"),
        (4, "signed"),
        (8, "unsigned"),
        (8, "unsigned"),
    ]
    assert [str(a) for a in shapes.arguments[5:7]] == [
        "4 signed bytes @ -5",
        "8 unsigned bytes @ 1099511627776",
    ]


def test_library_with_and_without_semaphore(workload: Workload) -> None:
    probes = assert_as_readelf_says(workload.library, X86_NOP)
    with_semaphore = {probe.name: probe.semaphore_address is not None for probe in probes}
    assert with_semaphore == {"with_semaphore": True, "no_semaphore": False}


def test_file_that_is_not_position_independent(fixed_workload: Workload) -> None:
    probes = assert_as_readelf_says(fixed_workload.executable, X86_NOP)
    assert all(probe.address != probe.file_offset for probe in probes)


def test_notes_survive_strip(workload: Workload, stripped_workload: Workload) -> None:
    assert read(stripped_workload.executable) == read(workload.executable)
    assert read(stripped_workload.library) == read(workload.library)


def test_arm64(arm64_workload: Workload) -> None:
    probes = assert_as_readelf_says(arm64_workload.executable, ARM64_NOP)
    words = [str(argument) for probe in probes for argument in probe.arguments]
    assert len(words) == 11
    assert not [word for word in words if "[" in word or "#" in word]
    assert_as_readelf_says(arm64_workload.library, ARM64_NOP)


def test_prelinked_file_has_its_probes_where_its_code_is(workload: Workload) -> None:
    # As prelink(8) leaves it: all that the notes say is off by one distance.
    distance = 0x11000
    content = bytearray(workload.executable.read_bytes())
    for place in section(workload.executable, ".note.stapsdt"):
        if content[place : place + 8] != b"stapsdt\0":
            continue
        for at in range(place + 8, place + 32, 8):
            address = int.from_bytes(content[at : at + 8], "little")
            content[at : at + 8] = (address - distance).to_bytes(8, "little", signed=True)
    assert content != workload.executable.read_bytes()
    assert read_usdt_probes(BytesIO(content), "prelinked") == read(workload.executable)


def test_bpftrace_lists_the_same(workload: Workload) -> None:
    needed("bpftrace")
    path = workload.executable
    output = output_of("bpftrace", "-l", f"usdt:{path}:*")
    ours = {f"usdt:{path}:{probe.provider}:{probe.name}" for probe in read(path).probes}
    assert set(output.split()) == ours


def test_debug_file_has_the_section_but_no_notes(workload: Workload, tmp_path: Path) -> None:
    debug = tmp_path / "usdt_target.debug"
    output_of("objcopy", "--only-keep-debug", workload.executable, debug)
    assert read(debug).probes == ()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\2\1\1\0"])
def test_what_is_no_elf_file(content: bytes) -> None:
    with pytest.raises(InputError, match="thing is"):
        read_usdt_probes(BytesIO(content), "thing")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_or_refused(workload: Workload, data: st.DataObject) -> None:
    content = bytearray(workload.library.read_bytes())
    headers = st.integers(0, 64 + 56 * 8) | st.integers(len(content) - 64 * 40, len(content) - 1)
    notes = st.sampled_from(section(workload.library, ".note.stapsdt"))
    for place in data.draw(st.lists(headers | notes, min_size=1, max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content)) | st.just(len(content))) :]
    try:
        found = read_usdt_probes(BytesIO(content), "damaged")
    except InputError as error:
        message = str(error)
    else:
        assert all(0 <= probe.file_offset < 2**64 for probe in found.probes)
        return
    assert "damaged" in message
