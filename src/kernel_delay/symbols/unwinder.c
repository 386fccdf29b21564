// SPDX-License-Identifier: Apache-2.0
/* What libdwfl calls back for every word of memory and every frame while it unwinds. */
#include <stdlib.h>
#include <string.h>

#define X86_64_RBX 3
#define X86_64_RBP 6
#define X86_64_RSP 7
#define X86_64_RIP 16
#define X86_64_NREGS 17
#define I386_NREGS 9 /* eax..edi, eip */
#define ARM64_FP 29
#define ARM64_LR 30
#define ARM64_SP 31
#define ARM64_PC 32
#define ARM64_NREGS 33 /* x0..x30, sp, pc */

/* What a copy of a stack has or lacks as a whole, whatever the kernel's page size. */
#define COPY_PAGE 4096

/* A read this close above the copy is of the stack: the default RLIMIT_STACK. */
#define STACK_REACH (8ULL << 20)

/* Bits 48 and up of an arm64 user pointer hold no address; a pointer authentication code there
 * hides a return address (Documentation/arch/arm64/pointer-authentication.rst, 6.18).
 */
#define ARM64_ADDRESS_BITS ((1ULL << 48) - 1)

/* arch/arm64/kernel/vdso/sigreturn.S, 5.14 to 6.18: mov x8, #__NR_rt_sigreturn; svc #0 */
#define ARM64_SIGRETURN 0xd4000001d2801168ULL

/* Of struct rt_sigframe (arch/arm64/kernel/signal.c, 5.14 to 6.18), at its stack pointer: where
 * uc.uc_mcontext.regs are, which sp and pc follow (include/uapi/asm/ucontext.h, sigcontext.h).
 */
#define ARM64_SIGNAL_REGS (128 + 176 + 8)

struct unwinder {
	Dwfl *dwfl;
	const uint64_t *executable;
	size_t n_executable;
	const uint64_t *trampolines;
	size_t n_trampolines;

	/* the stack being unwound */
	const uint64_t *regs;
	unsigned int nregs;
	uint64_t base;
	const uint8_t *stack;
	size_t stack_len;
	uint64_t missing_pages[MISSING_WORDS];
	int failed_read; /* since the last frame: STACK_WHOLE for none, or what it means */
	struct unwound *out;

	/* The last frame, to go on from when libdwfl has lost rbx, or one that it can't find from
	 * that.
	 */
	uint64_t frame_regs[ARM64_NREGS];
	uint64_t rbx;
	bool rbx_lost;
	bool resumed; /* the first frame is noted already */
	bool stepped; /* to the caller, which is noted */
	bool returned; /* to what a signal interrupted */
};

static bool is_in(uint64_t addr, const uint64_t *ranges, size_t n)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (addr < ranges[2 * mid])
			high = mid;
		else if (addr >= ranges[2 * mid + 1])
			low = mid + 1;
		else
			return true;
	}
	return false;
}

static bool is_executable(const struct unwinder *unwinder, uint64_t addr)
{
	return is_in(addr, unwinder->executable, unwinder->n_executable);
}

static uint64_t without_authentication(const struct unwinder *unwinder, uint64_t word)
{
	uint64_t addr = word & ARM64_ADDRESS_BITS;

	if (unwinder->nregs == ARM64_NREGS && word != addr && is_executable(unwinder, addr))
		return addr;
	return word;
}

/* A section that the process can't have written holds in memory what it holds in the file. */
static bool read_file_section(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result, size_t size)
{
	Dwfl_Module *mod = dwfl_addrmodule(dwfl, addr);
	Dwarf_Addr bias;
	Elf_Scn *scn;
	Elf_Data *data;
	GElf_Shdr shdr;

	scn = mod ? dwfl_module_address_section(mod, &addr, &bias) : NULL;
	if (!scn || !gelf_getshdr(scn, &shdr) || shdr.sh_flags & SHF_WRITE)
		return false;
	data = elf_rawdata(scn, NULL);
	if (!data || !data->d_buf || data->d_size < size || addr > data->d_size - size)
		return false;
	memcpy(result, (const char *)data->d_buf + addr, size);
	return true;
}

static bool is_missing(const struct unwinder *unwinder, uint64_t addr)
{
	uint64_t page = addr / COPY_PAGE - unwinder->base / COPY_PAGE;

	return page < 64 * MISSING_WORDS && unwinder->missing_pages[page / 64] >> page % 64 & 1;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result, void *arg)
{
	struct unwinder *unwinder = arg;
	uint64_t offset = addr - unwinder->base;
	size_t size = unwinder->nregs == I386_NREGS ? sizeof(uint32_t) : sizeof(*result);

	*result = 0;
	if (offset < unwinder->stack_len && unwinder->stack_len - offset >= size &&
	    !is_missing(unwinder, addr)) {
		memcpy(result, unwinder->stack + offset, size);
		*result = without_authentication(unwinder, *result);
		return true;
	}
	if (read_file_section(dwfl, addr, result, size))
		return true;
	unwinder->failed_read =
		offset < unwinder->stack_len + STACK_REACH ? STACK_SHORT : STACK_LOST;
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

static bool set_initial_registers(Dwfl_Thread *thread, void *arg)
{
	const struct unwinder *unwinder = arg;
	uint64_t regs[ARM64_SP + 1];
	unsigned int i;

	if (unwinder->nregs != ARM64_NREGS) /* x86: the pc is the last of DWARF's registers */
		return dwfl_thread_state_registers(thread, 0, unwinder->nregs, unwinder->regs);
	for (i = 0; i <= ARM64_SP; i++)
		regs[i] = without_authentication(unwinder, unwinder->regs[i]);
	dwfl_thread_state_register_pc(thread, unwinder->regs[ARM64_PC]);
	return dwfl_thread_state_registers(thread, 0, ARM64_SP + 1, regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_initial_registers,
};

static void take_registers(struct unwinder *unwinder, Dwfl_Frame *frame, uint64_t pc)
{
	uint64_t *regs = unwinder->frame_regs;
	int i;

	for (i = 0; i < X86_64_RIP; i++)
		if (dwfl_frame_reg(frame, i, &regs[i]))
			regs[i] = 0;
	regs[X86_64_RBX] = unwinder->rbx;
	regs[X86_64_RIP] = pc;
}

/* Where unwind information says nothing of rbx a function preserves it (System V ABI, 3.2.1), but
 * libdwfl takes it for unknown: backends/x86_64_cfi.c means rbx and says register 0 (seen in
 * 0.188). The dynamic linker's resolver and Clang's aligned frames find their caller by it.
 */
static void note_registers(struct unwinder *unwinder, Dwfl_Frame *frame, uint64_t pc)
{
	if (unwinder->nregs != X86_64_NREGS)
		return;
	unwinder->rbx_lost = dwfl_frame_reg(frame, X86_64_RBX, &unwinder->rbx) != 0;
	if (unwinder->rbx_lost)
		take_registers(unwinder, frame, pc);
}

/* Goes to the caller of a trampoline, which is a frame, too; false if that is not known. */
static bool step_over(struct unwinder *unwinder, Dwfl_Frame *frame)
{
	uint64_t *regs = unwinder->frame_regs, sp, caller;
	struct unwound *out = unwinder->out;

	if (unwinder->nregs != X86_64_NREGS || out->n == MAX_FRAMES ||
	    dwfl_frame_reg(frame, X86_64_RSP, &sp) ||
	    !memory_read(unwinder->dwfl, sp + 8, &caller, unwinder) ||
	    !is_executable(unwinder, caller - 1))
		return false;
	take_registers(unwinder, frame, caller - 1);
	/* One that makes rbp its frame pointer has saved it at the frame's lower end. */
	if (regs[X86_64_RBP] == sp)
		memory_read(unwinder->dwfl, sp, &regs[X86_64_RBP], unwinder);
	regs[X86_64_RSP] = sp + 16;
	out->pcs[out->n] = caller;
	out->exact[out->n++] = false;
	return true;
}

/* arm64's vDSO has no unwind information, and libdwfl's guess leaves out the caller's frame. */
static bool is_bare_vdso(const struct unwinder *unwinder, uint64_t pc)
{
	const char *file = NULL;
	Dwfl_Module *mod;
	Dwarf_Addr bias;

	if (unwinder->nregs != ARM64_NREGS)
		return false;
	mod = dwfl_addrmodule(unwinder->dwfl, pc);
	if (mod)
		dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, &file, NULL);
	return file && !strcmp(file, "[vdso]") && !dwfl_module_eh_cfi(mod, &bias);
}

/* Goes to what a signal interrupted: its registers are on the stack. */
static bool return_from_signal(struct unwinder *unwinder, uint64_t sp)
{
	uint64_t *regs = unwinder->frame_regs;
	int i;

	for (i = 0; i < ARM64_NREGS; i++)
		if (!memory_read(unwinder->dwfl, sp + ARM64_SIGNAL_REGS + i * sizeof(*regs),
				 &regs[i], unwinder))
			return false;
	return is_executable(unwinder, regs[ARM64_PC]);
}

/* Goes to the caller of a function that calls no other and has nothing on the stack. getrandom's,
 * from 6.12 on, has: its frame begins with its caller's frame pointer and address, and nothing says
 * where it ends.
 */
static bool leave_leaf(struct unwinder *unwinder, Dwfl_Frame *frame)
{
	uint64_t *regs = unwinder->frame_regs, caller, saved;
	struct unwound *out = unwinder->out;
	int i;

	for (i = 0; i <= ARM64_SP; i++)
		if (dwfl_frame_reg(frame, i, &regs[i]))
			return false;
	caller = regs[ARM64_LR];
	if (out->n == MAX_FRAMES || !is_executable(unwinder, caller - 1))
		return false;
	if (regs[ARM64_FP] == regs[ARM64_SP] &&
	    memory_read(unwinder->dwfl, regs[ARM64_FP] + sizeof(saved), &saved, unwinder) &&
	    saved == caller)
		return false;
	regs[ARM64_PC] = caller - 1;
	out->pcs[out->n] = caller;
	out->exact[out->n++] = false;
	return true;
}

/* The last frame is one of the vDSO. Of its functions the signals' trampoline alone is returned to.
 */
static int leave_vdso(struct unwinder *unwinder, Dwfl_Frame *frame, uint64_t pc, bool exact)
{
	struct unwound *out = unwinder->out;
	uint64_t code, sp;

	if (read_file_section(unwinder->dwfl, pc, &code, sizeof(code)) && code == ARM64_SIGRETURN) {
		out->exact[out->n - 1] = true;
		if (!dwfl_frame_reg(frame, ARM64_SP, &sp))
			unwinder->returned = return_from_signal(unwinder, sp);
		if (unwinder->failed_read != STACK_WHOLE)
			out->end = unwinder->failed_read;
		return DWARF_CB_ABORT;
	}
	unwinder->stepped = exact && leave_leaf(unwinder, frame);
	return DWARF_CB_ABORT;
}

static int note_frame(Dwfl_Frame *frame, void *arg)
{
	struct unwinder *unwinder = arg;
	struct unwound *out = unwinder->out;
	Dwarf_Addr pc;
	bool exact;

	unwinder->failed_read = STACK_WHOLE;
	if (unwinder->resumed) {
		unwinder->resumed = unwinder->rbx_lost = false;
		return DWARF_CB_OK;
	}
	if (out->n == MAX_FRAMES) {
		out->end = STACK_SHORT;
		return DWARF_CB_ABORT;
	}
	/* Without unwind information libdwfl guesses; a guess that is no code ends the stack. */
	if (!dwfl_frame_pc(frame, &pc, &exact) ||
	    (out->n && !is_executable(unwinder, exact ? pc : pc - 1))) {
		out->end = STACK_LOST;
		return DWARF_CB_ABORT;
	}
	note_registers(unwinder, frame, exact ? pc : pc - 1);
	out->pcs[out->n] = pc;
	out->exact[out->n++] = exact;
	if (is_in(exact ? pc : pc - 1, unwinder->trampolines, unwinder->n_trampolines)) {
		unwinder->stepped = step_over(unwinder, frame);
		return unwinder->stepped ? DWARF_CB_ABORT : DWARF_CB_OK;
	}
	if (is_bare_vdso(unwinder, pc))
		return leave_vdso(unwinder, frame, pc, exact);
	return DWARF_CB_OK;
}

struct unwinder *unwinder_new(Dwfl *dwfl, pid_t pid, const uint64_t *executable,
			      size_t n_executable)
{
	struct unwinder *unwinder = calloc(1, sizeof(*unwinder));

	if (!unwinder)
		return NULL;
	unwinder->dwfl = dwfl;
	unwinder->executable = executable;
	unwinder->n_executable = n_executable;
	if (!dwfl_attach_state(dwfl, NULL, pid, &thread_callbacks, unwinder)) {
		free(unwinder);
		return NULL;
	}
	return unwinder;
}

void unwinder_free(struct unwinder *unwinder)
{
	free(unwinder);
}

void unwinder_set_trampolines(struct unwinder *unwinder, const uint64_t *trampolines,
			      size_t n_trampolines)
{
	unwinder->trampolines = trampolines;
	unwinder->n_trampolines = n_trampolines;
}

void unwinder_set_stack(struct unwinder *unwinder, uint64_t base, const uint8_t *stack,
			size_t stack_len, const uint64_t *missing_pages)
{
	unwinder->base = base;
	unwinder->stack = stack;
	unwinder->stack_len = stack_len;
	memcpy(unwinder->missing_pages, missing_pages, sizeof(unwinder->missing_pages));
}

void unwinder_unwind(struct unwinder *unwinder, const uint64_t *regs, unsigned int nregs,
		     struct unwound *out)
{
	int result;

	unwinder->regs = regs;
	unwinder->nregs = nregs;
	unwinder->out = out;
	out->n = 0;
	out->end = STACK_LOST;
	unwinder->resumed = unwinder->rbx_lost = unwinder->stepped = unwinder->returned = false;
	result = dwfl_getthread_frames(unwinder->dwfl, dwfl_pid(unwinder->dwfl), note_frame,
				       unwinder);
	while (unwinder->stepped || unwinder->returned ||
	       (result != DWARF_CB_ABORT && unwinder->rbx_lost)) {
		unwinder->regs = unwinder->frame_regs;
		unwinder->resumed = !unwinder->returned;
		unwinder->stepped = unwinder->returned = false;
		result = dwfl_getthread_frames(unwinder->dwfl, dwfl_pid(unwinder->dwfl), note_frame,
					       unwinder);
	}
	if (result == DWARF_CB_ABORT)
		return;
	/* libdwfl takes a return address that it could not read for the stack's end, too. */
	if (unwinder->failed_read != STACK_WHOLE)
		out->end = unwinder->failed_read;
	else
		out->end = result ? STACK_LOST : STACK_WHOLE;
}
