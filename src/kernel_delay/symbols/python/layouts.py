"""Where the fields of CPython's structures are, by version.

3.8 to 3.12: tables, made with offsetof() and CPython's own headers: Include/internal/
pycore_runtime.h (3.8: pycore_pystate.h), pycore_interp.h and pycore_frame.h, Include/cpython/
pystate.h, frameobject.h, code.h and unicodeobject.h (3.8.18, 3.9.18, 3.10.13, 3.11.2, 3.11.7 and
3.12.1; the two of 3.11 agree). 3.13 and 3.14: the interpreter has its own table at the start of
_PyRuntime (struct _Py_DebugOffsets: 3.13.0 pycore_runtime.h, 3.14.10 pycore_debug_offsets.h).
"""

import struct

from msgspec import Struct, structs

from kernel_delay.symbols.python.line_table import LineFormat

COOKIE = b"xdebugpy"

LARGEST_OFFSET = 1024
"""Of a field; PyThreadState has some 400 bytes."""

LARGEST_OF_STATE = 1 << 20
"""Of a field of _PyRuntime or PyInterpreterState, which has some 200 KiB."""

_OF_STATE = frozenset(("interpreters_head", "interpreter_next", "threads_head", "interpreter_gil"))


class Layout(Struct, frozen=True):
    """The offsets of the fields that are read, in bytes.

    Attributes:
        interpreters_head: _PyRuntimeState.interpreters.head.
        interpreter_next: PyInterpreterState.next.
        threads_head: PyInterpreterState.threads.head.
        thread_next: PyThreadState.next.
        thread_interpreter: PyThreadState.interp.
        native_thread_id: PyThreadState.native_thread_id. None: it came with 3.11.
        current_frame: PyThreadState.current_frame; with `c_frame` that of _PyCFrame. Before 3.11:
            PyThreadState.frame.
        executable: The code object of _PyInterpreterFrame, a tagged pointer. Before 3.11:
            PyFrameObject.f_code.
        previous: _PyInterpreterFrame.previous. Before 3.11: PyFrameObject.f_back.
        instruction: _PyInterpreterFrame.prev_instr or instr_ptr. Before 3.11:
            PyFrameObject.f_lasti.
        entry: The byte of _PyInterpreterFrame that ends the frames of one call in C.
        filename: PyCodeObject.co_filename.
        name: PyCodeObject.co_name.
        qualified_name: PyCodeObject.co_qualname. Before 3.11: co_name.
        line_table: PyCodeObject.co_linetable. Before 3.10: co_lnotab.
        first_line: PyCodeObject.co_firstlineno.
        code: PyCodeObject.co_code_adaptive. Before 3.11: not used.
        ascii_size: The size of PyASCIIObject: a compact ASCII string begins behind it.
        compact_size: The size of PyCompactUnicodeObject: any other compact string does.
        c_frame: PyThreadState.cframe. None: the thread state has the frame itself.
        entry_from: The least value of `entry` that ends a call.
        entry_is_function: The frame that ends a call is of a Python function itself.
        instruction_bytes: What `instruction` counts, as an int from the first instruction on.
            None: it is an address.
        line_format: The format of the line table.
        thread_id: PyThreadState.thread_id, what pthread_self() returns. Used where there is no
            native_thread_id.
        main_thread: _PyRuntimeState.main_thread, the same of the first thread.
        runtime_gil: _PyRuntimeState.ceval.gil. None: from 3.12 on an interpreter has it.
        interpreter_gil: PyInterpreterState.ceval.gil, a pointer. None: before 3.12.
        type: PyObject.ob_type.
        bytes_length: PyVarObject.ob_size.
        bytes_content: PyBytesObject.ob_sval.
        text_length: PyASCIIObject.length.
        text_state: PyASCIIObject.state.
    """

    interpreters_head: int
    interpreter_next: int
    threads_head: int
    thread_next: int
    thread_interpreter: int
    native_thread_id: int | None
    current_frame: int
    executable: int
    previous: int
    instruction: int
    entry: int
    filename: int
    name: int
    qualified_name: int
    line_table: int
    first_line: int
    code: int
    ascii_size: int
    compact_size: int
    c_frame: int | None = None
    entry_from: int = 3
    entry_is_function: bool = False
    instruction_bytes: int | None = None
    line_format: LineFormat = "locations"
    thread_id: int = 0
    main_thread: int = 0
    runtime_gil: int | None = None
    interpreter_gil: int | None = None
    type: int = 8
    bytes_length: int = 16
    bytes_content: int = 32
    text_length: int = 16
    text_state: int = 32


# Frames are objects, and each is a call of the interpreter in C: any byte of it ends a call.
_3_8 = Layout(
    interpreters_head=32,
    interpreter_next=0,
    threads_head=8,
    thread_next=8,
    thread_interpreter=16,
    native_thread_id=None,
    thread_id=176,
    main_thread=72,
    runtime_gil=1152,
    current_frame=24,
    executable=32,
    previous=24,
    instruction=104,
    instruction_bytes=1,
    entry=0,
    entry_from=0,
    entry_is_function=True,
    filename=104,
    name=112,
    qualified_name=112,
    line_table=120,
    line_format="lnotab",
    first_line=40,
    code=0,
    ascii_size=48,
    compact_size=72,
)

# In 3.11 `entry` is is_entry, later it is owner, and 3 is FRAME_OWNED_BY_CSTACK (3.12, 3.13) or
# FRAME_OWNED_BY_INTERPRETER (3.14).
_TABLES = {
    (3, 8): _3_8,
    (3, 9): structs.replace(_3_8, runtime_gil=352),
    (3, 10): structs.replace(
        _3_8,
        runtime_gil=352,
        instruction=96,
        instruction_bytes=2,
        line_format="line_deltas",
    ),
    (3, 11): Layout(
        interpreters_head=40,
        interpreter_next=0,
        threads_head=16,
        thread_next=8,
        thread_interpreter=16,
        native_thread_id=160,
        runtime_gil=360,
        c_frame=56,
        current_frame=8,
        executable=32,
        previous=48,
        instruction=56,
        entry=68,
        entry_from=1,
        entry_is_function=True,
        filename=112,
        name=120,
        qualified_name=128,
        line_table=136,
        first_line=72,
        code=184,
        ascii_size=48,
        compact_size=72,
    ),
    (3, 12): Layout(
        interpreters_head=40,
        interpreter_next=0,
        threads_head=72,
        thread_next=8,
        thread_interpreter=16,
        native_thread_id=144,
        interpreter_gil=384,
        c_frame=56,
        current_frame=0,
        executable=0,
        previous=8,
        instruction=56,
        entry=70,
        filename=112,
        name=120,
        qualified_name=128,
        line_table=136,
        first_line=68,
        code=192,
        ascii_size=40,
        compact_size=56,
    ),
}

# The places, in words of 64 bits from the cookie on, of what struct _Py_DebugOffsets has.
_OWN_TABLES = {
    (3, 13): {
        "interpreters_head": 5,
        "interpreter_next": 8,
        "threads_head": 9,
        "interpreter_gil": 14,
        "thread_next": 21,
        "thread_interpreter": 22,
        "current_frame": 23,
        "native_thread_id": 25,
        "previous": 29,
        "executable": 30,
        "instruction": 31,
        "entry": 33,
        "filename": 35,
        "name": 36,
        "qualified_name": 37,
        "line_table": 38,
        "first_line": 39,
        "code": 43,
        "type": 45,
        "bytes_length": 65,
        "bytes_content": 66,
        "text_state": 68,
        "text_length": 69,
        "ascii_size": 70,
    },
    (3, 14): {
        "interpreters_head": 5,
        "interpreter_next": 8,
        "threads_head": 9,
        "interpreter_gil": 15,
        "thread_next": 24,
        "thread_interpreter": 25,
        "current_frame": 26,
        "native_thread_id": 28,
        "previous": 32,
        "executable": 33,
        "instruction": 34,
        "entry": 36,
        "filename": 40,
        "name": 41,
        "qualified_name": 42,
        "line_table": 43,
        "first_line": 44,
        "code": 48,
        "type": 51,
        "bytes_length": 75,
        "bytes_content": 76,
        "text_state": 78,
        "text_length": 79,
        "ascii_size": 80,
    },
}
_VERSION = 1
_FREE_THREADED = 2

# PyCompactUnicodeObject has utf8_length and utf8 behind the PyASCIIObject, from 3.12 on.
_BEHIND_ASCII = 16

OWN_TABLE_BYTES = 8 * 81
"""What is read of struct _Py_DebugOffsets."""


def version_of(number: int) -> tuple[int, int]:
    """Split a PY_VERSION_HEX.

    Args:
        number: The value.

    Returns:
        The major and the minor version.
    """
    return number >> 24 & 0xFF, number >> 16 & 0xFF


def own_version(table: bytes) -> int:
    """Read the version of a struct _Py_DebugOffsets.

    Args:
        table: The start of _PyRuntime.

    Returns:
        The PY_VERSION_HEX; 0 if there is no such struct.
    """
    if not table.startswith(COOKIE) or len(table) < OWN_TABLE_BYTES:
        return 0
    (number,) = struct.unpack_from("=Q", table, 8 * _VERSION)
    return int(number)


def layout_of(number: int, table: bytes) -> Layout | None:
    """Find the layout of a version.

    Args:
        number: The PY_VERSION_HEX.
        table: The start of _PyRuntime, OWN_TABLE_BYTES of it.

    Returns:
        The layout. None: it is not known, or the interpreter's table has impossible offsets.
    """
    version = version_of(number)
    if version in _TABLES:
        return _TABLES[version]
    places = _OWN_TABLES.get(version)
    if places is None or own_version(table) != number:
        return None
    words = struct.unpack_from(f"={OWN_TABLE_BYTES // 8}Q", table)
    offsets = {name: words[place] for name, place in places.items()}
    # Builds without a GIL have other objects, which are not known here.
    if words[_FREE_THREADED] or any(
        offset > (LARGEST_OF_STATE if name in _OF_STATE else LARGEST_OFFSET)
        for name, offset in offsets.items()
    ):
        return None
    return Layout(compact_size=offsets["ascii_size"] + _BEHIND_ASCII, **offsets)
