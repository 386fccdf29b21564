// SPDX-License-Identifier: Apache-2.0
/*
 * The frames that elfutils finds: `elfutils_frames PID` reads copies of stacks of the process, a
 * struct copy and its bytes each, and writes a struct found without the room that is left.
 *
 * This is libdwfl as eu-stack(1) uses it: it looks for the files, and for what debug information
 * there is, by itself. Of memory it has the copy alone.
 */
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REGISTERS 17 /* x86-64's, in DWARF's order */
#define FRAMES_MAX 1024
#define PAGE 4096
#define MISSING_WORDS 4

struct copy {
	uint64_t registers[REGISTERS];
	uint64_t base;
	uint64_t size;
	uint64_t missing[MISSING_WORDS]; /* a bit for each page from that of base on */
};

struct found {
	uint32_t is_whole;
	uint32_t n;
	uint64_t addresses[FRAMES_MAX];
};

struct stack {
	struct copy copy;
	uint8_t *bytes;
	bool failed_read; /* since the last frame */
	struct found found;
};

static bool is_missing(const struct copy *copy, uint64_t address)
{
	uint64_t page = address / PAGE - copy->base / PAGE;

	return page < 64 * MISSING_WORDS && copy->missing[page / 64] >> page % 64 & 1;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *arg)
{
	struct stack *stack = arg;
	uint64_t offset = address - stack->copy.base;

	*word = 0;
	if (offset < stack->copy.size && stack->copy.size - offset >= sizeof(*word) &&
	    !is_missing(&stack->copy, address)) {
		memcpy(word, stack->bytes + offset, sizeof(*word));
		return true;
	}
	stack->failed_read = true;
	return false;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	if (*thread_arg)
		return 0;
	*thread_arg = arg;
	return dwfl_pid(dwfl);
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct stack *stack = arg;

	return dwfl_thread_state_registers(thread, 0, REGISTERS, stack->copy.registers);
}

static const Dwfl_Thread_Callbacks of_threads = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_memory,
	.set_initial_registers = set_registers,
};

static const Dwfl_Callbacks of_files = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

static int note_frame(Dwfl_Frame *frame, void *arg)
{
	struct stack *stack = arg;
	Dwarf_Addr address;

	stack->failed_read = false;
	if (stack->found.n == FRAMES_MAX || !dwfl_frame_pc(frame, &address, NULL))
		return DWARF_CB_ABORT;
	stack->found.addresses[stack->found.n++] = address;
	return DWARF_CB_OK;
}

static void find_frames(Dwfl *dwfl, struct stack *stack)
{
	int result;

	stack->found.n = 0;
	stack->failed_read = false;
	result = dwfl_getthread_frames(dwfl, dwfl_pid(dwfl), note_frame, stack);
	/* libdwfl takes a return address that it could not read for the stack's end, too. */
	stack->found.is_whole = !result && !stack->failed_read;
}

int main(int argc, char **argv)
{
	Dwfl *dwfl = dwfl_begin(&of_files);
	struct stack *stack = calloc(1, sizeof(*stack));
	pid_t pid = argc == 2 ? atoi(argv[1]) : 0;

	if (!pid || !dwfl || !stack || dwfl_linux_proc_report(dwfl, pid) ||
	    dwfl_report_end(dwfl, NULL, NULL) ||
	    !dwfl_attach_state(dwfl, NULL, pid, &of_threads, stack)) {
		fprintf(stderr, "elfutils_frames: %s\n", dwfl_errmsg(-1));
		return 1;
	}
	while (fread(&stack->copy, sizeof(stack->copy), 1, stdin) == 1) {
		stack->bytes = malloc(stack->copy.size + 1);
		if (!stack->bytes ||
		    fread(stack->bytes, 1, stack->copy.size, stdin) != stack->copy.size)
			return 1;
		find_frames(dwfl, stack);
		fwrite(&stack->found, 2 * sizeof(uint32_t) + stack->found.n * sizeof(uint64_t), 1,
		       stdout);
		fflush(stdout);
		free(stack->bytes);
	}
	return 0;
}
