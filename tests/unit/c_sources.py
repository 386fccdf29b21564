"""C files of stores as libraries of their own, to test what Python does not call."""

import re
import subprocess
from pathlib import Path
from typing import Any

from cffi import FFI

from tests.needs import needed

SOURCES = Path(__file__).parents[2] / "src" / "kernel_delay"
EVENT_HEADERS = ("event_store", "longest_events", "entry_order", "stack_table")
TIMELINE_HEADERS = ("timeline_store", "kept_slices", "tracks", "round_timeline")
BPF = SOURCES / "bpf"
RECORDS = ("records.h", "thread_records.h", "event_records.h")
FLAGS = (
    *("-O1", "-g", "-shared", "-fPIC", "-Wall", "-Werror"),
    f"-I{BPF}",
)


def build(directory: Path) -> tuple[FFI, Any]:
    """Compile the event store's there; return the declarations and the library."""
    return _build(directory, SOURCES / "capture" / "syscall_events", EVENT_HEADERS)


def build_timeline(directory: Path) -> tuple[FFI, Any]:
    """Compile the timeline store's there; return the declarations and the library."""
    return _build(directory, SOURCES / "capture" / "timeline", TIMELINE_HEADERS)


def _build(directory: Path, capture: Path, headers: tuple[str, ...]) -> tuple[FFI, Any]:
    """All but the first, which has a thread of its own."""
    compiler = needed("cc")
    files = [capture / f"{name}.c" for name in headers[1:]]
    library = directory / "store.so"
    subprocess.run([compiler, *FLAGS, *files, "-o", library], check=True)
    ffi = FFI()
    for name in RECORDS:
        ffi.cdef(declarations(BPF / name))
    for name in headers:
        ffi.cdef(declarations(capture / f"{name}.h"))
    return ffi, ffi.dlopen(str(library))


def declarations(header: Path) -> str:
    """A header as cffi reads it: with integer constants as its only directives."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    text = re.sub(r"__([us])(\d+)", lambda m: {"u": "u", "s": ""}[m[1]] + f"int{m[2]}_t", text)
    return re.sub(r"^#(?!define \w+ [0-9]+$).*$", "", text, flags=re.MULTILINE)
