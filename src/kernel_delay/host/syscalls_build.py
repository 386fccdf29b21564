"""Writes the C source of the `_seccomp` extension: libseccomp's table of syscalls, and filters.

Run by meson: `syscalls_build.py OUTPUT.c`.
"""

import sys

from cffi import FFI

DECLARATIONS = """
#define SCMP_ARCH_X86 ...
#define SCMP_ARCH_X32 ...
#define SCMP_ARCH_ARM ...
uint32_t seccomp_arch_native(void);
char *seccomp_syscall_resolve_num_arch(uint32_t arch, int number);
int seccomp_syscall_resolve_name_arch(uint32_t arch, const char *name);
void free(void *memory);
int deny_calls(const int32_t *calls, size_t n_calls, const int32_t *commands, size_t n_commands);
int allow_calls(const int32_t *calls, size_t n_calls);
int limit_capabilities(uint64_t kept);
void end_with_parent(void);
void refuse_tracers(void);
"""

INCLUDED = """
#include <stdlib.h>
#include <seccomp.h>
#include "capabilities.h"
#include "seccomp_filter.h"
"""


def main() -> None:
    """Write the extension's C source to the path given."""
    ffi = FFI()
    ffi.cdef(DECLARATIONS)
    ffi.set_source("kernel_delay.host._seccomp", INCLUDED)
    ffi.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
