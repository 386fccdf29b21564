"""Writes the C source of an extension that has what C headers declare.

Run by meson: `extension_source.py OUTPUT.c MODULE HEADER.h...`. The declarations are the headers
themselves, after the C preprocessor, so there is no second definition; in API mode the compiler
checks the layout that cffi assumes. What they declare is in C files that meson compiles.

A header comes behind those that it includes.
"""

import re
import sys
from pathlib import Path

from cffi import FFI

TYPES = """
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef unsigned long long __u64;
typedef int16_t __s16;
typedef int32_t __s32;
typedef int64_t __s64;
"""

INCLUDES = """
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
"""

# A plain number, and what the compiler is asked for: in hexadecimal, or all ones of a type.
_CONSTANT = re.compile(
    r"^#define (\w+) (?:(\d+)|0x[0-9a-fA-F]+|\(\(\w+\)-1\))\s*$", flags=re.MULTILINE
)


def declarations(headers: str) -> str:
    """Return the headers' declarations as cffi reads them: no directives but constants."""
    body = re.sub(r"/\*.*?\*/", "", headers, flags=re.DOTALL)
    constants = {found[1]: found[2] for found in _CONSTANT.finditer(body)}
    body = re.sub(r"^#.*$", "", body, flags=re.MULTILINE)
    body = re.sub(r"\[(\w+)\]", lambda size: f"[{constants.get(size[1], size[1])}]", body)
    defines = "".join(f"#define {name} {value or '...'}\n" for name, value in constants.items())
    return TYPES + defines + body


def main() -> None:
    """Write the extension's C source to the path given."""
    output, module, *headers = sys.argv[1:]
    paths = [Path(header) for header in headers]
    ffi = FFI()
    ffi.cdef(declarations("".join(path.read_text() for path in paths)))
    included = "".join(f'#include "{path.name}"\n' for path in paths)
    ffi.set_source(module, INCLUDES + included)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()
