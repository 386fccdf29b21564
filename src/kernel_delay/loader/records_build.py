"""Writes the C source of an extension for the structs of a header of bpf/.

Run by meson: `records_build.py HEADER OUTPUT.c MODULE [SHIM.c [MORE.h...]]`. The
declarations are the header itself, after the C preprocessor, so there is no
second definition; in API mode the compiler checks the layout that cffi
assumes. The shim has functions for these structs, and so have further headers.
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
typedef uint16_t __u16;
typedef int16_t __s16;
typedef int32_t __s32;
typedef int64_t __s64;
"""

SHIM_FUNCTIONS = """
void free_windows(struct control *control, uint64_t epoch);
void publish_window(struct control *control, uint64_t start_ns, uint64_t stop_ns);
int end_window(struct control *control, uint64_t epoch, uint64_t stop_ns);
uint64_t load_counter(const __u64 *counter);
void store_counter(__u64 *counter, uint64_t value);
uint32_t find_parts(const void *records, size_t bytes, uint32_t slots, uint64_t owner,
                    uint32_t *found);
void free_slot(struct ring_position *position, uint64_t *freed, uint32_t freed_slots,
               uint32_t slot);
void free_parts(void *records, size_t bytes, uint32_t slots, const uint8_t *is_owner,
                struct ring_position *position, uint64_t *freed, uint32_t freed_slots);
uint64_t monotonic_ns(void);
int wait_for_programs(void);
"""


def declarations(header: str) -> str:
    """Return the header's declarations as cffi reads them: no directives but constants."""
    constants = re.findall(r"^#define (\w+) (\d+)$", header, flags=re.MULTILINE)
    body = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    body = re.sub(r"^#.*$", "", body, flags=re.MULTILINE)
    values = dict(constants)
    body = re.sub(r"\[(\w+)\]", lambda size: f"[{values.get(size[1], size[1])}]", body)
    defines = "".join(f"#define {name} {value}\n" for name, value in constants)
    return TYPES + defines + body


def main() -> None:
    """Write the extension's C source to the path given."""
    header, output, module, *more = sys.argv[1:]
    headers = "".join(Path(path).read_text() for path in (header, *more[1:]))
    ffi = FFI()
    ffi.cdef(declarations(headers) + (SHIM_FUNCTIONS if more else ""))
    names = [Path(path).name for path in (header, *more[1:])]
    source = "".join(f'#include "{name}"\n' for name in names)
    shim = Path(more[0]).read_text() if more else "#include <linux/types.h>\n"
    ffi.set_source(module, shim + source)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()
