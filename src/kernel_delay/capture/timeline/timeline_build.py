"""Writes the C source of the `_timeline` extension: the declarations of its headers.

Run by meson: `timeline_build.py HEADER.h... OUTPUT.c`. The declarations are the headers
themselves, without their directives.
"""

import re
import sys
from pathlib import Path

from cffi import FFI


def main() -> None:
    """Write the extension's C source to the path given."""
    *headers, output = sys.argv[1:]
    text = "".join(Path(header).read_text() for header in headers)
    body = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    body = re.sub(r"^#.*$", "", body, flags=re.MULTILINE)
    ffi = FFI()
    ffi.cdef("#define NO_CPU ...\nvoid free(void *memory);\n" + body)
    included = "".join(f'#include "{Path(header).name}"\n' for header in headers)
    ffi.set_source("kernel_delay.capture.timeline._timeline", "#include <stdlib.h>\n" + included)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()
