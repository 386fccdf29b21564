"""Writes the C source of the `_file_status` extension: statx(2) that asks no server.

Run by meson: `file_status_build.py OUTPUT.c`.
"""

import re
import sys
from pathlib import Path

from cffi import FFI


def main() -> None:
    """Write the extension's C source to the path given."""
    here = Path(__file__).parent
    header, source = (here / "file_status.h").read_text(), (here / "file_status.c").read_text()
    ffi = FFI()
    ffi.cdef(re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL))
    ffi.set_source("kernel_delay.host._file_status", header + source)
    ffi.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
