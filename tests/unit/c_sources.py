"""The event store's C files as a library of their own, to test what Python does not call."""

import re
import subprocess
from pathlib import Path
from typing import Any

from cffi import FFI

from tests.needs import needed

SOURCES = Path(__file__).parents[2] / "src" / "kernel_delay"
HEADERS = ("event_store", "longest_events", "entry_order", "stack_table")
FLAGS = ("-O1", "-g", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{SOURCES / 'bpf' / 'core'}")


def build(directory: Path) -> tuple[FFI, Any]:
    """Compile them there; return the declarations and the library."""
    compiler = needed("cc")
    capture = SOURCES / "capture" / "syscall_events"
    files = [capture / f"{name}.c" for name in HEADERS if name != "event_store"]
    library = directory / "events.so"
    subprocess.run([compiler, *FLAGS, *files, "-o", library], check=True)
    ffi = FFI()
    ffi.cdef(declarations(SOURCES / "bpf" / "core" / "records.h"))
    for name in HEADERS:
        ffi.cdef(declarations(capture / f"{name}.h"))
    return ffi, ffi.dlopen(str(library))


def declarations(header: Path) -> str:
    """A header as cffi reads it: with integer constants as its only directives."""
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    text = re.sub(r"__([us])(\d+)", lambda m: {"u": "u", "s": ""}[m[1]] + f"int{m[2]}_t", text)
    return re.sub(r"^#(?!define \w+ [0-9]+$).*$", "", text, flags=re.MULTILINE)
