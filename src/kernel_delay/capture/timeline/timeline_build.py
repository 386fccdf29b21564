"""Writes the C source of the `_timeline` extension: the declarations of timeline_store.h.

Run by meson: `timeline_build.py TIMELINE_STORE_H OUTPUT.c`. The declarations are
the header itself, without its directives.
"""

import re
import sys
from pathlib import Path

from cffi import FFI


def main() -> None:
    """Write the extension's C source to the path given."""
    header, output = sys.argv[1:]
    body = re.sub(r"/\*.*?\*/", "", Path(header).read_text(), flags=re.DOTALL)
    body = re.sub(r"^#.*$", "", body, flags=re.MULTILINE)
    ffi = FFI()
    ffi.cdef("#define NO_CPU ...\nvoid free(void *memory);\n" + body)
    source = '#include <stdlib.h>\n#include "timeline_store.h"\n'
    ffi.set_source("kernel_delay.capture.timeline._timeline", source)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()
