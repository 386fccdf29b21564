// SPDX-License-Identifier: Apache-2.0
/* Any ELF file as a module: its functions, and a stack unwound in it. With ONE_OBJECT it is a sound
 * one, and all of the input are registers and the stack.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
#include <linux/types.h>
#include <dwarf.h>
#include <gelf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include "eh_frame.h"
#include "large_frames.h"
#include "modules.h"
#include "unwinder.h"
#include "event_records.h"
#include "unwind_rows.h"

#ifndef ONE_OBJECT
/* libdw can be made to copy megabytes for each frame: more of them only take longer. */
#undef MAX_FRAMES
#define MAX_FRAMES 16
#endif

#include "eh_frame.c"
#include "large_frames.c"
#include "modules.c"
#include "unwinder.c"
#include "frame_state.c"
#include "unwind_rows.c"

#define BIAS 0x7f0000000000
#define STACK 0x7ffd00000000
#define FRAMES 64
#define SMALLEST 16

#ifdef ONE_OBJECT
#include <fcntl.h>

static int object(const uint8_t *data, size_t size)
{
	(void)data;
	(void)size;
	return open(ONE_OBJECT, O_RDONLY);
}
#else
static int object(const uint8_t *data, size_t size)
{
	int fd = memfd_create("object", 0);

	if (write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}
#endif

static void list(Dwfl_Module *mod)
{
	int n_symbols = dwfl_module_getsymtab(mod);
	uint64_t *addresses = calloc(n_symbols > 0 ? n_symbols : 1, sizeof(*addresses));
	struct functions out = {};
	char *names = module_functions(mod, addresses, &out);

	if (!names || (n_symbols > 0 && out.n > (size_t)n_symbols))
		abort();
	free(names);
	free(addresses);
}

static void list_large_frames(Dwfl_Module *mod)
{
	struct frame_rows *rows = calloc(FRAMES, sizeof(*rows));
	size_t n = module_large_frames(mod, SMALLEST, rows, FRAMES, UINT64_MAX);

	if (n > FRAMES)
		abort();
	for (size_t i = 0; i < n; i++)
		if (rows[i].size < SMALLEST)
			abort();
	free(rows);
}

/* They are sorted, and each names a rule that there is. */
static void make_rows(Dwfl_Module *mod)
{
	struct unwind_rows *made = module_unwind_rows(mod, UINT64_MAX);
	uint64_t *copy;

	if (!made)
		return;
	for (size_t i = 0; i < made->n_rows; i++)
		if ((uint32_t)made->rows[i] >= made->n_rules ||
		    (i && made->rows[i] >> 32 <= made->rows[i - 1] >> 32))
			abort();
	copy = calloc(made->n_rows + UNWIND_WORDS, sizeof(*copy));
	unwind_rows_copy(made->rows, made->n_rows, 1, copy);
	free(copy);
	unwind_rows_free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t executable[] = {BIAS, BIAS + (1 << 20)}, regs[X86_64_NREGS] = {};
	uint64_t trampolines[] = {BIAS + 0x1000, BIAS + 0x1040}, missing[MISSING_WORDS] = {};
	struct unwound *out = calloc(1, sizeof(*out));
	struct unwinder *unwinder;
	Dwfl *dwfl = modules_begin();
	Dwfl_Module *mod = modules_add(dwfl, "object", object(data, size), BIAS);

	if (modules_reported(dwfl))
		abort();
	if (mod) {
		list(mod);
		list_large_frames(mod);
		make_rows(mod);
	}
	unwinder = unwinder_new(dwfl, getpid(), executable, 1);
	if (unwinder) {
		memcpy(regs, data, size < sizeof(regs) ? size : sizeof(regs));
		regs[7] = STACK + regs[7] % 4096;
		/* In the object's code, wherever that is, for most inputs. */
		regs[X86_64_RIP] = BIAS + regs[X86_64_RIP] % (1 << 14);
		missing[0] = size ? data[size - 1] : 0;
		/* Half of the inputs have code that only calls. */
		if (missing[0] & 1)
			unwinder_set_trampolines(unwinder, trampolines, 1);
		unwinder_set_stack(unwinder, STACK, data, size & ~7, missing);
		unwinder_unwind(unwinder, regs, X86_64_NREGS, out);
		if (out->n > MAX_FRAMES || out->end > STACK_LOST)
			abort();
		unwinder_free(unwinder);
	}
	modules_free(dwfl);
	free(out);
	return 0;
}
