"""Writes the C source of the `_signals` extension: how signals end the tool.

Run by meson: `signals_build.py OUTPUT.c`.
"""

import re
import sys
from pathlib import Path

from cffi import FFI


def main() -> None:
    """Write the extension's C source to the path given."""
    here = Path(__file__).parent
    header, source = (here / "signals.h").read_text(), (here / "signals.c").read_text()
    ffi = FFI()
    ffi.cdef(re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL))
    ffi.set_source("kernel_delay.signals._signals", header + source)
    ffi.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
