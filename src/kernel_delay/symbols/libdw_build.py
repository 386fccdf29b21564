"""Write the C source of the `_libdw` extension: elfutils' libdw, libdwfl and libelf.

Run by meson at build time: `libdw_build.py OUTPUT.c`. Every function used is in
elfutils 0.188 (Debian 12) and later.
"""

import re
import sys
from pathlib import Path

from cffi import FFI

OWN = (
    "eh_frame",
    "large_frames",
    "modules",
    "unwinder",
    "frame_state",
    "unwind_rows",
)

INCLUDES = """
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <linux/types.h>
#include <sys/types.h>
#include <dwarf.h>
#include <gelf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include "event_records.h"
"""

ELFUTILS = """
typedef int... pid_t;
typedef uint64_t GElf_Addr;
typedef uint64_t GElf_Off;
typedef uint32_t GElf_Word;
typedef uint64_t Dwarf_Addr;
typedef uint64_t Dwarf_Word;

#define EM_386 ...
#define EM_X86_64 ...
#define EM_ARM ...
#define EM_AARCH64 ...
typedef struct Elf Elf;
typedef ... Elf_Data;
typedef struct { uint64_t st_value; uint64_t st_size; ...; } GElf_Sym;

#define DW_TAG_subprogram ...
#define DW_TAG_inlined_subroutine ...
#define DW_AT_call_file ...
#define DW_AT_call_line ...
typedef struct Dwarf_Files_s Dwarf_Files;
typedef struct { ...; } Dwarf_Die;
typedef struct { ...; } Dwarf_Attribute;
int dwarf_tag(Dwarf_Die *die);
int dwarf_haspc(Dwarf_Die *die, Dwarf_Addr pc);
const char *dwarf_diename(Dwarf_Die *die);
Dwarf_Attribute *dwarf_attr(Dwarf_Die *die, unsigned int name, Dwarf_Attribute *result);
int dwarf_formudata(Dwarf_Attribute *attr, Dwarf_Word *value);
int dwarf_getscopes(Dwarf_Die *cudie, Dwarf_Addr pc, Dwarf_Die **scopes);
int dwarf_getscopes_die(Dwarf_Die *die, Dwarf_Die **scopes);
int dwarf_getsrcfiles(Dwarf_Die *cudie, Dwarf_Files **files, size_t *n);
const char *dwarf_filesrc(Dwarf_Files *files, size_t i, Dwarf_Word *mtime, Dwarf_Word *length);

typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef struct Dwfl_Line Dwfl_Line;
const char *dwfl_errmsg(int error);
Dwfl_Module *dwfl_addrmodule(Dwfl *dwfl, Dwarf_Addr address);
int dwfl_module_getsymtab(Dwfl_Module *mod);
const char *dwfl_module_addrinfo(Dwfl_Module *mod, GElf_Addr address, GElf_Off *offset,
    GElf_Sym *sym, GElf_Word *shndx, Elf **elf, Dwarf_Addr *bias);
Dwarf_Die *dwfl_module_addrdie(Dwfl_Module *mod, Dwarf_Addr addr, Dwarf_Addr *bias);
Dwarf_Die *dwfl_module_nextcu(Dwfl_Module *mod, Dwarf_Die *last, Dwarf_Addr *bias);
Dwfl_Line *dwfl_module_getsrc(Dwfl_Module *mod, Dwarf_Addr addr);
const char *dwfl_lineinfo(Dwfl_Line *line, Dwarf_Addr *addr, int *linep, int *colp,
    Dwarf_Word *mtime, Dwarf_Word *length);

void free(void *memory);
"""


def builder(directory: Path) -> FFI:
    """Declare the extension from elfutils' functions above and the C files of this room."""
    declared = (directory / f"{name}.h" for name in OWN)
    headers = "".join(header.read_text() for header in declared if header.exists())
    sources = "".join((directory / f"{name}.c").read_text() for name in OWN)
    ffi = FFI()
    ffi.cdef(ELFUTILS + re.sub(r"/\*.*?\*/", "", headers, flags=re.DOTALL))
    ffi.set_source("kernel_delay.symbols._libdw", INCLUDES + headers + sources)
    return ffi


if __name__ == "__main__":
    builder(Path(__file__).parent).emit_c_code(sys.argv[1])
