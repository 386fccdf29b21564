/* SPDX-License-Identifier: Apache-2.0 */
#define MAX_FRAMES 1024

/* Bits for the pages of a stack that may be missing: 256 of them, 1 MiB. */
#define MISSING_WORDS 4

/* Why a stack ends: its outermost function was reached; the copy of the stack, or MAX_FRAMES, ended
 * first; there is no way to go on from the last frame.
 */
#define STACK_WHOLE 0
#define STACK_SHORT 1
#define STACK_LOST 2

/* exact[i]: pcs[i] is the very instruction, not a return address (first and signal frames). */
struct unwound {
	unsigned int n;
	int end;
	uint64_t pcs[MAX_FRAMES];
	uint8_t exact[MAX_FRAMES];
};

struct unwinder;

/* Once for a dwfl with all its modules. executable: sorted pairs of start and end, which stay the
 * caller's and must outlive the unwinder. NULL on failure, dwfl_errmsg says why.
 */
struct unwinder *unwinder_new(Dwfl *dwfl, pid_t pid, const uint64_t *executable,
			      size_t n_executable);
void unwinder_free(struct unwinder *unwinder);

/* Code that only calls, as CPython's perf trampolines do, and has no unwind information: sorted
 * pairs of start and end, the caller's till others are set. On x86-64 its frame has 16 bytes, the
 * upper 8 the return address (Python/asm_trampoline.S, 3.12 and 3.13).
 */
void unwinder_set_trampolines(struct unwinder *unwinder, const uint64_t *trampolines,
			      size_t n_trampolines);

/* The stack to unwind next: the memory from address base up, the caller's. missing_pages: a bit for
 * each page of 4 KiB, from that of base on, whose content is not known; MISSING_WORDS words.
 */
void unwinder_set_stack(struct unwinder *unwinder, uint64_t base, const uint8_t *stack,
			size_t stack_len, const uint64_t *missing_pages);

/* regs: in DWARF's order, x86-64 rax..r15 and rip (17), arm64 x0..x30, sp and pc (33). */
void unwinder_unwind(struct unwinder *unwinder, const uint64_t *regs, unsigned int nregs,
		     struct unwound *out);
