"""Frames of Python: from this process itself, from hostile memory, and in a user stack."""

import inspect
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.model import StackFrame
from kernel_delay.symbols import ProcessImage
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.data_symbols import exported_variables
from kernel_delay.symbols.mappings import Mapping
from kernel_delay.symbols.memory import ProcessMemory
from kernel_delay.symbols.object_files import ObjectFile
from kernel_delay.symbols.python import (
    PythonEnd,
    PythonFrame,
    PythonStack,
    interpreter,
    layouts,
)
from kernel_delay.symbols.python import threads as python_threads
from kernel_delay.symbols.python.interpreter import Interpreter, find_interpreter
from kernel_delay.symbols.python.layouts import Layout, layout_of
from kernel_delay.symbols.python.line_table import LineFormat, line_at, lines
from kernel_delay.symbols.python.objects import LONGEST_TEXT_BYTES, Objects
from kernel_delay.symbols.python.threads import (
    MOST_FRAMES,
    MOST_READS,
    MOST_THREADS,
    ThreadPointers,
    Threads,
    ThreadsError,
)
from kernel_delay.where import python_frames
from kernel_delay.where.python_frames import (
    BROKEN,
    LONG,
    SNAPSHOT,
    UNMATCHED,
    PythonThreads,
    joined,
)
from tests.unit.made_python import HEX_3_9, HEX_3_10, HEX_3_11, HEX_3_12, Made

Read = Callable[[int, int], bytes]

needs_known_version = pytest.mark.skipif(
    layout_of(sys.hexversion, b"") is None, reason="this Python has a table of its own"
)


class OwnMemory(ProcessMemory):
    """Reads itself: whoever waits for another process to read has other frames meanwhile."""

    def read(self, address: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, size, address)
        except (OSError, OverflowError):
            return b""


@contextmanager
def own_memory() -> Iterator[tuple[ProcessImage, ProcessMemory]]:
    memory = OwnMemory(Path("/proc/self"), Bounds())
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
    ("number", "version"), [(0x03070DF0, "3.7.13"), (0x030F00F0, "3.15.0"), (0x030B00A7, "3.11.0")]
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


@pytest.mark.parametrize(
    ("version", "runtime", "remark"),
    [
        ("3.7", 0x1000, "Python 3.7: its frames are not known"),
        ("3.6", 0, "Python 3.6: its frames are not known"),
        ("", 0x1000, "Python of an unknown version: its frames are not known"),
        (
            "3.11",
            0,
            "Python 3.11: its frames are not known: no file of it has the symbol _PyRuntime",
        ),
    ],
)
def test_unknown_interpreter_has_a_remark(
    monkeypatch: pytest.MonkeyPatch, version: str, runtime: int, remark: str
) -> None:
    found = Interpreter(version, runtime, None, None)
    monkeypatch.setattr(python_frames, "find_interpreter", lambda *_: found)
    with own_memory() as (image, memory):
        threads = PythonThreads(image, memory)
    threads.note()
    assert (threads.stack(1), threads.remarks()) == (None, (remark,))


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
        (0x03070DF0, b""),
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
        (HEX_3_9, b""),
        (HEX_3_10, b""),
    )
    if (layout := layout_of(number, table)) is not None
]


def repeated(content: bytes) -> Read:
    """Memory that has the same bytes over and over."""

    def read(address: int, size: int) -> bytes:
        start = address % len(content)
        return (content * (2 + size // len(content)))[start : start + size]

    return read


def whole_words(content: bytes) -> bytes:
    return content[: len(content) // 8 * 8]


def read_all(layout: Layout, read: Read) -> None:
    # Any word may be a thread's pointer.
    words = {word: 1 + word % 3 for (word,) in struct.iter_unpack("=Q", whole_words(read(0, 512)))}
    for code_type in (None, 8):
        threads = Threads(Interpreter("", 0, layout, code_type, code_type), layout, read)
        try:
            threads.note(ThreadPointers(words, leader=8))
        except ThreadsError:
            continue
        for tid in (*threads.tids(), 1):
            found = threads.stack(tid)
            assert found is None or len(found.frames) <= MOST_FRAMES


def test_frames_are_split_at_calls_in_c() -> None:
    found = Made(["f@a.py", "g@a.py", "", "__init__@__init__", "h@b.py", ""]).stack()
    first = (PythonFrame("f", "a.py", 10), PythonFrame("g", "a.py", 11))
    assert found == PythonStack((first, (PythonFrame("h", "b.py", 14),)), "whole", is_steady=True)


@pytest.mark.parametrize("number", [HEX_3_9, HEX_3_10])
def test_frame_object_is_a_call_of_its_own(number: int) -> None:
    found = Made(["f@a.py", "g@a.py"], number).stack()
    # A line applies behind its length in 3.9, and to its length in 3.10.
    first = 10 if number == HEX_3_9 else 11
    calls = ((PythonFrame("f", "a.py", first),), (PythonFrame("g", "a.py", first + 1),))
    assert found == PythonStack(calls, "whole", is_steady=True)


def test_object_of_another_type_is_no_frame() -> None:
    made = Made(["f@a.py", "g@a.py", "h@a.py"], HEX_3_10)
    made.words[made.frame(1) + made.layout.type] = made.TYPE
    found = made.stack()
    assert found is not None
    assert ([frame.function for frame in found.frames], found.end) == (["f"], "broken")


@pytest.mark.parametrize(
    ("pointer", "leader", "is_known"),
    [
        (0, 0, True),
        # On arm64 the thread pointer is behind the structure of the thread.
        (0x700, 0x700, True),
        (0x700, 0, False),
        (0x100000, 0x100000, False),
    ],
)
def test_thread_is_known_by_its_thread_pointer(pointer: int, leader: int, is_known: bool) -> None:
    made = Made(["f@a.py"], HEX_3_9)
    made.pointers = ThreadPointers({made.PTHREAD + pointer: made.TID}, made.PTHREAD + leader)
    if is_known:
        assert made.stack() is not None
    else:
        with pytest.raises(ThreadsError):
            made.stack()


@pytest.mark.parametrize("is_debug_build", [False, True])
def test_version_before_3_11_is_the_files(
    monkeypatch: pytest.MonkeyPatch, is_debug_build: bool
) -> None:
    variables = {interpreter.RUNTIME: 0x1000, interpreter.FRAME_TYPE: 0x2000}
    if is_debug_build:
        variables[interpreter.TOTAL_OF_REFERENCES] = 0x3000
    monkeypatch.setattr(interpreter, "exported_variables", lambda *_: variables)
    code = Mapping(
        start=0x10000,
        end=0x20000,
        executable=True,
        writable=False,
        offset=0,
        device="00:01",
        inode=1,
        path="/usr/lib/libpython3.9.so.1.0",
        deleted=False,
    )
    file = ObjectFile(
        code=code, bias=0, machine=0, build_id=None, state="", copied=0, fd=-1, debug=None
    )
    found = find_interpreter([file], lambda *_: b"")
    layout = None if is_debug_build else layout_of(HEX_3_9, b"")
    assert found == Interpreter("3.9", 0x1000, layout, None, 0x2000)


def break_pointer(made: Made) -> None:
    made.words[made.frame(1) + made.layout.previous] = 0x7000_0000


def break_circle(made: Made) -> None:
    made.words[made.frame(1) + made.layout.previous] = made.frame(0)


def break_type(made: Made) -> None:
    made.words[made.code(2) + made.layout.type] = made.TYPE + 8


def break_name(made: Made) -> None:
    made.words[made.code(2) + made.layout.filename] = 0


@pytest.mark.parametrize("damage", [break_pointer, break_circle, break_type, break_name])
def test_damaged_chain_has_frames_before_the_damage(damage: Callable[[Made], None]) -> None:
    made = Made(["f@a.py", "g@a.py", "h@a.py", ""])
    damage(made)
    found = made.stack()
    assert found is not None
    assert [frame.function for frame in found.frames] == ["f", "g"]
    assert found.end == "broken"


def test_frames_that_change_are_read_again() -> None:
    made = Made(["f@a.py", "g@a.py", ""])
    made_read = made.read
    current = made.C_FRAME + made.layout.current_frame
    times: list[int] = []

    def changing(address: int, size: int) -> bytes:
        if address == current:
            times.append(address)
            made.words[current] = made.frame(len(times) % 2)
        return made_read(address, size)

    made.read = changing  # type: ignore[method-assign]
    found = made.stack()
    assert found is not None
    assert not found.is_steady
    # Whether there is a frame at all is looked at first.
    assert len(times) == 1 + 2 * MOST_READS


def test_thread_of_another_interpreter_has_no_frames() -> None:
    made = Made(["f@a.py", ""])
    made.words[made.STATE + made.layout.thread_interpreter] = made.RUNTIME
    with pytest.raises(ThreadsError):
        made.stack()


def test_frames_are_not_read_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_threads, "READING_S", 0.0)
    made = Made(["f@a.py", ""])
    threads = Threads(Interpreter("", made.RUNTIME, made.layout, None), made.layout, made.read)
    threads.note()
    assert (len(threads), threads.stack(made.TID), threads.is_late) == (1, None, True)


def test_no_more_threads_are_noted_than_the_bound() -> None:
    made = Made(["f@a.py", ""])
    next_state = made.layout.thread_next
    for number in range(MOST_THREADS + 10):
        state = made.STATE + (number * 0x1000 << 16)
        made.words[state + next_state] = state + (0x1000 << 16)
        made.words[state + made.layout.thread_interpreter] = made.INTERPRETER
        made.words[state + made.tid_place] = number
    threads = Threads(Interpreter("", made.RUNTIME, made.layout, None), made.layout, made.word)
    threads.note()
    assert len(threads) == MOST_THREADS


def test_thread_list_that_changes_is_read_again() -> None:
    made = Made(["f@a.py", ""])
    made_read = made.read
    place = made.STATE + made.layout.thread_interpreter
    made.words[place] = made.RUNTIME

    def ending(address: int, size: int) -> bytes:
        content = made_read(address, size)
        if address == place:
            made.words[place] = made.INTERPRETER
        return content

    made.read = ending  # type: ignore[method-assign]
    found = made.stack()
    assert found is not None
    assert [frame.function for frame in found.frames] == ["f"]


def test_thread_in_two_interpreters_has_no_frames() -> None:
    made = Made(["f@a.py", ""])
    other = 0x6000
    for offset in (made.layout.thread_interpreter, made.tid_place):
        made.words[other + offset] = made.words[made.STATE + offset]
    made.words[other + (made.layout.c_frame or 0)] = made.C_FRAME
    made.words[made.STATE + made.layout.thread_next] = other
    assert made.stack() is None


@given(st.sampled_from([HEX_3_9, HEX_3_10, HEX_3_12]), st.data())
def test_any_damaged_words_end_the_frames(number: int, data: st.DataObject) -> None:
    made = Made(["f@a.py", "g@a.py", "", "h@a.py", ""], number)
    places = sorted(made.words)
    values = st.one_of(st.sampled_from(places), st.integers(0, (1 << 64) - 1))
    changes = st.dictionaries(st.sampled_from(places), values, min_size=1, max_size=6)
    made.words |= data.draw(changes)
    with suppress(ThreadsError):
        found = made.stack()
        assert found is None or len(found.frames) <= MOST_FRAMES
    # Each of two readings has some reads for a frame.
    assert made.reads < 100 * MOST_READS


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


@given(
    st.binary(max_size=200),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.integers(-2, 4096),
    st.sampled_from(get_args(LineFormat)),
)
def test_random_line_table_ends(
    table: bytes, first_line: int, offset: int, line_format: LineFormat
) -> None:
    line_at(table, first_line, offset, line_format)
    assert len(list(lines(table, first_line, line_format))) <= len(table) + 1


# Tables of the documentation's format, with the lines by hand: a function's two lines, a line
# further up, 300 bytes and lines at once, and an instruction without a line.
@pytest.mark.parametrize(
    ("line_format", "table", "wanted"),
    [
        ("lnotab", "", [(0, 10), (100, 10)]),
        ("lnotab", "0001 0801", [(0, 11), (7, 11), (8, 12), (500, 12)]),
        ("lnotab", "0605 06fe", [(0, 10), (6, 15), (12, 13)]),
        ("lnotab", "ff00 2d7f 007f", [(0, 10), (299, 10), (300, 264)]),
        ("line_deltas", "", [(0, None)]),
        ("line_deltas", "0800 0801 04fe", [(0, 10), (8, 11), (16, 9), (20, None)]),
        ("line_deltas", "0401 0480 0402", [(0, 11), (4, None), (8, 13)]),
        ("line_deltas", "007f 0464 fe01 0400", [(0, 237), (4, 238), (258, 238)]),
    ],
)
def test_old_line_tables_have_their_lines(
    line_format: LineFormat, table: str, wanted: list[tuple[int, int | None]]
) -> None:
    content = bytes.fromhex(table)
    assert [(at, line_at(content, 10, at, line_format)) for at, _ in wanted] == wanted
    assert line_at(content, 10, -1, line_format) == 10


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


def test_greenlet_has_its_own_frames_alone() -> None:
    """What is further out is on the stack of the greenlet that started it."""
    frames = c_frames(EVAL, "inner_bootstrap", EVAL, "main")
    frames[1] = structs.replace(frames[1], object="/lib/greenlet/_greenlet.cpython-312.so")
    found, remark = joined(frames, "whole", stack((INNER,)))
    assert [frame.name for frame in found] == ["inner", "inner_bootstrap", EVAL, "main"]
    assert remark is None


def test_python_frame_has_file_line_and_address() -> None:
    (inner, outer), _ = joined(c_frames(EVAL), "whole", stack((INNER, OUTER)))
    assert (inner.address, inner.object, inner.source) == (100, "/a/b.py", "/a/b.py:3")
    assert (outer.address, outer.source, outer.language) == (100, None, "python")
