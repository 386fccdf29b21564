"""Rows for the kernel's walk: each says what elfutils says of the same instructions."""

import os
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel_delay.symbols._libdw import lib
from kernel_delay.symbols.process_image import ProcessImage
from kernel_delay.symbols.unwind_rows import NoRowsError, UnwindRows
from tests.integration.symbols.call_chains import gcc, gcc_library
from tests.workload import SOURCES

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="rows are x86-64's")

HERE = Path(__file__).parent
BPF = HERE.parents[2] / "src" / "kernel_delay" / "bpf"
LONG_NS = 60_000_000_000

# What it has on the stack is found by another register than its aligned frame.
ALIGNED = """
int use(void *bytes, int size);
int aligned(int a, int b, int c, int d, int e, int f, int g, int size)
{
	_Alignas(64) char bytes[64];

	return use(bytes, a + b + c + d + e + f + g) + use(__builtin_alloca(size), size);
}
"""

PRINT_MAPPED_FILES = """
import os

from kernel_delay.symbols.process_image import ProcessImage

with ProcessImage(os.getpid()) as image:
    print(*{found.code.path for found in image.objects if found.code.inode}, sep="\\n")
"""

CFA_AT_RBP, CFA_PLT, CFA_OUTERMOST = 3, 4, 6


@pytest.fixture(scope="module")
def elfutils_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("elfutils") / "elfutils_rules"
    gcc(
        program,
        f"-I{BPF}",
        HERE / "elfutils_rules.c",
        "-ldw",
        "-lelf",
    )
    return program


@contextmanager
def rows_of(fd: int, deadline_ns: int | None = None) -> Iterator[UnwindRows]:
    """The rows of an open file, at its own addresses."""
    dwfl = lib.modules_begin()
    try:
        module = lib.modules_add(dwfl, b"object", os.dup(fd), 0)
        lib.modules_reported(dwfl)
        yield UnwindRows.make(module, deadline_ns or time.monotonic_ns() + LONG_NS)
    finally:
        lib.modules_free(dwfl)


def rules_by_address(fd: int) -> dict[int, int]:
    """Of each row the first and the last byte that it is of, and its rule as a word."""
    with rows_of(fd) as made:
        rows, rules = array("Q", made.rows), array("Q", made.rules)
    found = {}
    ends = [row >> 32 for row in rows[1:]] + [(rows[-1] >> 32) + 1]
    for row, end in zip(rows, ends, strict=True):
        found[row >> 32] = found[end - 1] = rules[row & 0xFFFFFFFF]
    return found


def by_elfutils(program: Path, file: Path, addresses: "array[int]") -> "array[int]":
    done = subprocess.run(
        [program, file], input=addresses.tobytes(), stdout=subprocess.PIPE, check=True
    )
    return array("Q", done.stdout)


def check_rows(program: Path, file: Path) -> set[int]:
    """Hold all rows of a file against elfutils'; return which kinds of CFA it has."""
    fd = os.open(file, os.O_RDONLY)
    try:
        ours = rules_by_address(fd)
    finally:
        os.close(fd)
    addresses = array("Q", ours)
    theirs = by_elfutils(program, file, addresses)
    assert len(theirs) == len(addresses) > 0
    assert [
        (hex(at), hex(ours[at]), hex(rule))
        for at, rule in zip(addresses, theirs, strict=True)
        if ours[at] != rule
    ] == []
    return {rule >> 48 & 0xFF for rule in ours.values()}


def mapped_files() -> list[Path]:
    """What an interpreter with libdw has mapped: libc, the dynamic linker and so on.

    One of its own: other tests may have had this one map DuckDB, where lld left entries of no byte
    before those of some functions. elfutils' search by address finds the former, and no rule.
    """
    child = [sys.executable, "-c", PRINT_MAPPED_FILES]
    done = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=True)
    return sorted(map(Path, done.stdout.splitlines()))


@pytest.mark.long
def test_rows_of_each_library_match_elfutils(elfutils_rules: Path) -> None:
    kinds: set[int] = set()
    files = mapped_files()
    for file in files:
        kinds |= check_rows(elfutils_rules, file)
    assert {CFA_PLT, CFA_OUTERMOST} <= kinds
    assert any("libc.so" in file.name for file in files)
    assert any(file.name.startswith("_libdw.") for file in files)
    assert Path(sys.executable).resolve() in files


@pytest.mark.parametrize(
    "flags",
    [["-O2"], ["-O0"], ["-O2", "-no-pie"], ["-O2", "-static"]],
    ids=" ".join,
)
def test_rows_of_our_own_programs_match_elfutils(
    elfutils_rules: Path, tmp_path: Path, flags: list[str]
) -> None:
    library, program = tmp_path / "libcall_chain.so", tmp_path / "call_chain"
    gcc_library(library, *(flag for flag in flags if flag not in {"-static", "-no-pie"}))
    sources = [SOURCES / "call_chain.c"]
    sources.append(SOURCES / "call_chain_library.c" if "-static" in flags else library)
    gcc(program, "-pthread", *flags, *sources)
    check_rows(elfutils_rules, program)
    check_rows(elfutils_rules, library)


def test_rows_of_frames_that_gcc_aligns(elfutils_rules: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "aligned.c", tmp_path / "aligned.so"
    source.write_text(ALIGNED)
    gcc(library, "-fPIC", "-shared", source)
    assert CFA_AT_RBP in check_rows(elfutils_rules, library)


def test_the_vdso_has_rows(elfutils_rules: Path, tmp_path: Path) -> None:
    with ProcessImage(os.getpid()) as image:
        (vdso,) = (found for found in image.objects if found.code.path == "[vdso]")
        copy = tmp_path / "vdso.so"
        copy.write_bytes(os.pread(vdso.fd, vdso.code.end - vdso.code.start, 0))
    check_rows(elfutils_rules, copy)


def test_expired_deadline_leaves_a_file_without_rows() -> None:
    fd = os.open(mapped_files()[0], os.O_RDONLY)
    try:
        with pytest.raises(NoRowsError), rows_of(fd, time.monotonic_ns()):
            pass
    finally:
        os.close(fd)
