"""Frames of Python: from this process itself, from hostile memory, and in a user stack."""

import inspect
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.model import StackFrame
from kernel_delay.symbols import ProcessImage
from kernel_delay.symbols.data_symbols import exported_variables
from kernel_delay.symbols.memory import ProcessMemory
from kernel_delay.symbols.python import layouts
from kernel_delay.symbols.python.frames import PythonEnd, PythonFrame, PythonStack
from kernel_delay.symbols.python.interpreter import Interpreter, find_interpreter
from kernel_delay.symbols.python.layouts import Layout, layout_of
from kernel_delay.symbols.python.line_table import line_at, lines
from kernel_delay.symbols.python.objects import LONGEST_TEXT_BYTES, Objects
from kernel_delay.symbols.python.threads import MOST_FRAMES, Threads, ThreadsError
from kernel_delay.where.python_frames import BROKEN, LONG, SNAPSHOT, UNMATCHED, joined

Read = Callable[[int, int], bytes]

HEX_3_11 = 0x030B07F0
HEX_3_12 = 0x030C01F0

needs_known_version = pytest.mark.skipif(
    layout_of(sys.hexversion, b"") is None, reason="this Python has a table of its own"
)


@contextmanager
def own_memory() -> Iterator[tuple[ProcessImage, ProcessMemory]]:
    memory = ProcessMemory(Path("/proc/self"))
    try:
        with ProcessImage(os.getpid()) as image:
            yield image, memory
    finally:
        memory.close()


def own_stack(read: Read | None = None) -> PythonStack | None:
    with own_memory() as (image, memory):
        found = find_interpreter(image.objects, memory.read)
        assert found is not None
        assert found.layout is not None
        threads = Threads(found, found.layout, read or memory.read)
        threads.note()
        return threads.stack(threading.get_native_id())


@needs_known_version
def test_own_thread_has_the_frames_of_inspect() -> None:
    found = own_stack()
    assert found is not None
    ours = [(each.function, each.file, each.line) for each in found.frames]
    theirs = []
    frame = inspect.currentframe()
    while frame is not None:
        theirs.append((frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    # What is further in than this function runs only while the frames are read.
    assert ours[len(ours) - len(theirs) + 1 :] == theirs[1:]
    assert found.end == "whole"


@needs_known_version
def test_deep_recursion_has_its_innermost_frames() -> None:
    def recursive(depth: int) -> PythonStack | None:
        return recursive(depth - 1) if depth else own_stack()

    found = recursive(MOST_FRAMES)
    assert found is not None
    assert found.end == "long"
    assert len(found.frames) == MOST_FRAMES


@needs_known_version
@pytest.mark.parametrize(
    ("number", "version"), [(0x030A0DF0, "3.10.13"), (0x030F00F0, "3.15.0"), (0x030B00A7, "3.11.0")]
)
def test_version_without_offsets_has_no_layout(number: int, version: str) -> None:
    with own_memory() as (image, memory):
        own = struct.pack("=Q", sys.hexversion)
        found = find_interpreter(
            image.objects,
            lambda address, size: (
                memory.read(address, size).replace(own, struct.pack("=Q", number))
                if size == 8
                else memory.read(address, size)
            ),
        )
    assert found is not None
    assert (found.version, found.layout) == (version, None)


def own_table(number: int, *, word: int = 8, free_threaded: int = 0) -> bytes:
    """A struct _Py_DebugOffsets whose offsets are all the same."""
    words = [number, free_threaded, *[word] * (layouts.OWN_TABLE_BYTES // 8 - 3)]
    return layouts.COOKIE + struct.pack(f"={len(words)}Q", *words)


@pytest.mark.parametrize("number", [0x030D05F0, 0x030E0AF0])
def test_own_table_has_its_offsets(number: int) -> None:
    layout = layout_of(number, own_table(number, word=24))
    assert layout is not None
    assert (layout.previous, layout.text_length, layout.compact_size) == (24, 24, 40)


@pytest.mark.parametrize(
    ("number", "table"),
    [
        (0x030D05F0, b""),
        (0x030D05F0, own_table(0x030D05F0)[:-1]),
        (0x030D05F0, own_table(0x030E00F0)),
        (0x030D05F0, own_table(0x030D05F0, word=1 << 40)),
        (0x030D05F0, own_table(0x030D05F0, free_threaded=1)),
        (0x030F00F0, own_table(0x030F00F0)),
        (0x030A0DF0, b""),
        (0, b""),
    ],
)
def test_unfit_table_has_no_layout(number: int, table: bytes) -> None:
    assert layout_of(number, table) is None


LAYOUTS = [
    layout
    for number, table in (
        (HEX_3_11, b""),
        (HEX_3_12, b""),
        (0x030D05F0, own_table(0x030D05F0)),
        (0x030E0AF0, own_table(0x030E0AF0, word=64)),
    )
    if (layout := layout_of(number, table)) is not None
]


def repeated(content: bytes) -> Read:
    """Memory that has the same bytes over and over."""

    def read(address: int, size: int) -> bytes:
        start = address % len(content)
        return (content * (2 + size // len(content)))[start : start + size]

    return read


def read_all(layout: Layout, read: Read) -> None:
    for code_type in (None, 8):
        threads = Threads(Interpreter("", 0, layout, code_type), layout, read)
        try:
            threads.note()
        except ThreadsError:
            continue
        for tid in (*threads.tids(), 1):
            found = threads.stack(tid)
            assert found is None or len(found.frames) <= MOST_FRAMES


@given(st.sampled_from(LAYOUTS), st.binary(min_size=8, max_size=512))
def test_random_memory_ends_the_frames(layout: Layout, content: bytes) -> None:
    read_all(layout, repeated(content))


@given(
    st.sampled_from(LAYOUTS),
    st.lists(st.integers(0, 64).map(lambda word: 8 * word), min_size=1, max_size=80),
    st.integers(0, 2048),
)
def test_wild_pointers_end_the_frames(layout: Layout, words: list[int], mapped: int) -> None:
    """Most lead back into the memory, so that there are circles."""
    content = struct.pack(f"={len(words)}Q", *words)
    whole = repeated(content)
    read_all(layout, lambda address, size: whole(address, size) if address < mapped else b"")


@given(st.sampled_from(LAYOUTS), st.binary(max_size=400), st.integers(0, (1 << 64) - 1))
def test_random_objects_are_read_within_bounds(
    layout: Layout, content: bytes, address: int
) -> None:
    objects = Objects(
        lambda at, size: content[at - address :][:size] if at >= address else b"", layout, None
    )
    text = objects.text(address)
    assert text is None or len(text) <= LONGEST_TEXT_BYTES * 4
    code = objects.code(address)
    if code is not None:
        objects.line(code, address)


@needs_known_version
@pytest.mark.parametrize(
    "text", ["", "ascii", "\xe9", "\u03bb", "\N{SNAKE}", "x" * 5000, "\N{SNAKE}" * 5000, "a\udc80"]
)
def test_text_of_each_kind_is_read(text: str) -> None:
    layout = layout_of(sys.hexversion, b"")
    assert layout is not None
    with own_memory() as (_, memory):
        found = Objects(memory.read, layout, None).text(id(text))
    size = max(1, (max(map(ord, text), default=0).bit_length() + 7) // 8)
    wanted = text[: LONGEST_TEXT_BYTES // (4 if size == 3 else size)]
    assert found == wanted.encode("utf-16-le", "surrogatepass").decode(
        "utf-16-le", "backslashreplace"
    )


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@pytest.mark.parametrize("module", [inspect, threading, struct, pytest, sys.modules["argparse"]])
def test_lines_are_those_of_the_code_itself(module: object) -> None:
    file = inspect.getsourcefile(module)  # type: ignore[arg-type]
    assert file is not None
    checked = 0
    for code in codes_of(compile(Path(file).read_text(), file, "exec")):
        ours = {
            offset: line
            for start, end, line in lines(code.co_linetable, code.co_firstlineno)
            for offset in range(start, end, 2)
        }
        theirs = {2 * at: position[0] for at, position in enumerate(code.co_positions())}
        assert ours == theirs
        checked += len(ours)
        last = len(code.co_code) - 2
        assert line_at(code.co_linetable, code.co_firstlineno, last) == theirs[last]
        assert line_at(code.co_linetable, code.co_firstlineno, len(code.co_code)) is None
        assert line_at(code.co_linetable, code.co_firstlineno, -2) == code.co_firstlineno
    assert checked


@given(st.binary(max_size=200), st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-2, 4096))
def test_random_line_table_ends(table: bytes, first_line: int, offset: int) -> None:
    line_at(table, first_line, offset)
    assert len(list(lines(table, first_line))) <= len(table)


def test_file_without_symbols_exports_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\x7fELF\x02\x01" + bytes(58))
    with file.open("rb") as opened:
        assert exported_variables(opened.fileno(), (b"_PyRuntime",)) == {}


INNER, OUTER = PythonFrame("inner", "/a/b.py", 3), PythonFrame("outer", "/a/b.py", None)


def stack(*calls: tuple[PythonFrame, ...], end: PythonEnd = "whole") -> PythonStack:
    return PythonStack(calls, end, is_steady=True)


def c_frames(*names: str) -> list[StackFrame]:
    return [StackFrame(address, name, 0, "libpython") for address, name in enumerate(names, 100)]


EVAL = "_PyEval_EvalFrameDefault"


@pytest.mark.parametrize(
    ("names", "end", "python", "wanted"),
    [
        (
            ["read", EVAL, "main"],
            "whole",
            stack((INNER, OUTER)),
            ["read", "inner", "outer", "main"],
        ),
        ([EVAL, "map", EVAL], "whole", stack((INNER,), (OUTER,)), ["inner", "map", "outer"]),
        ([f"{EVAL}.cold", "main"], "whole", stack((INNER,)), ["inner", "main"]),
        # A call that has just begun.
        ([EVAL, EVAL, "main"], "whole", stack((), (OUTER,)), [EVAL, "outer", "main"]),
        (["read", "main"], "whole", stack((INNER,)), ["inner", "read", "main"]),
        ([], None, stack((INNER,), (OUTER,)), ["inner", "outer"]),
        (["read"], "lost", stack((INNER,)), ["read", "inner"]),
        ([EVAL, "map"], "short", stack((INNER,), (OUTER,)), ["inner", "map", "outer"]),
        ([EVAL, "py::inner:/a/b.py"], "whole", stack((INNER,)), [EVAL, "py::inner:/a/b.py"]),
        (["read", EVAL], "whole", None, ["read", EVAL]),
    ],
)
def test_python_frames_replace_those_of_the_interpreter(
    names: list[str], end: str | None, python: PythonStack | None, wanted: list[str]
) -> None:
    found, remark = joined(c_frames(*names), end, python)
    assert [frame.name for frame in found] == wanted
    assert remark is None


@pytest.mark.parametrize(
    ("names", "python", "wanted", "remark"),
    [
        ([EVAL], stack((INNER,), (OUTER,)), ["inner", "outer", EVAL], UNMATCHED),
        ([EVAL, EVAL], stack((INNER,)), ["inner", EVAL, EVAL], UNMATCHED),
        ([EVAL, EVAL], stack((INNER,), end="broken"), ["inner", EVAL], BROKEN),
        ([EVAL, EVAL], stack((INNER,), end="long"), ["inner", EVAL], LONG),
        ([EVAL], PythonStack(((INNER,),), "whole", is_steady=False), ["inner"], SNAPSHOT),
    ],
)
def test_python_frames_that_do_not_fit_have_a_remark(
    names: list[str], python: PythonStack, wanted: list[str], remark: str
) -> None:
    found, said = joined(c_frames(*names), "whole", python)
    assert [frame.name for frame in found] == wanted
    assert said == remark


def test_python_frame_has_file_line_and_address() -> None:
    (inner, outer), _ = joined(c_frames(EVAL), "whole", stack((INNER, OUTER)))
    assert (inner.address, inner.object, inner.source) == (100, "/a/b.py", "/a/b.py:3")
    assert (outer.address, outer.source, outer.language) == (100, None, "python")
