/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Walks a user stack in the kernel, by the rules of its code, from the registers on. Nothing of
 * the frames' contents is copied but where they keep their callers'.
 *
 * Each step goes up the stack, to code that is known, or the walk is over. Where that is not at
 * the outermost function the stack is copied instead, or reported as far as it was found.
 *
 * Each function here is verified once and each frame is a call: that is few instructions for any
 * number of frames, and needs neither bpf_loop() nor tail calls.
 */
#ifndef KERNEL_DELAY_UNWIND_WALK_H
#define KERNEL_DELAY_UNWIND_WALK_H

#include "stack.h"
#include "unwind_table.h"

#if defined(__TARGET_ARCH_x86)
#define WALK_PC 16
#define WALK_SP 19
#define WALK_FP 4
#elif defined(__TARGET_ARCH_arm64)
#define WALK_PC 32
#define WALK_SP 31
#define WALK_FP 29
#endif

/* So much of a stack is read at once, a power of two: most frames are small. */
#define WINDOW_WORDS 64
#define NO_WINDOW ((__u64)-1)
#define WINDOW_BYTES (WINDOW_WORDS * sizeof(__u64))

struct stack_walk {
	__u64 generation;
	__u64 pc; /* the instruction of this frame, or the byte before where it returns to */
	__u64 sp;
	__u64 rbp; /* 0: not known */
	__u64 caller; /* where this frame returns to */
	__u32 frames;
	__u32 is_whole;
	__u64 window_at; /* where what is in the window was read from; all ones: nothing is */
	__u64 window[WINDOW_WORDS];
};

/* An event and its stack as it is walked: a CPU's own. The frames must follow the rest. */
struct walked_stack {
	struct stack_walk walk;
	struct syscall_event event;
	struct event_stacks stacks;
	__u64 user[WALKED_FRAMES + 1]; /* and NO_FRAME */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walked_stack);
} walked_stacks SEC(".maps");

static __always_inline struct walked_stack *walked_stack(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&walked_stacks, &only);
}

static __always_inline bool read_word(__u64 *word, __u64 address)
{
	return !bpf_probe_read_user(word, sizeof(*word), (void *)address);
}

/*
 * Whether @caller may be a return address: before it is a call, as in may_return_to(). Frame
 * pointers can be anything, where there are none.
 */
__noinline int is_after_call(__u64 caller)
{
	__u8 bytes[8] = {};

	if (!walks_stacks() || !find_code(caller - 1) ||
	    bpf_probe_read_user(bytes, sizeof(bytes), (void *)(caller - sizeof(bytes))))
		return 0;
	return bytes[3] == 0xe8 || is_indirect_call(bytes);
}

/* Has the window begin at @first, if that and @last are not both in it. */
static __always_inline void move_window(struct stack_walk *walk, __u64 first, __u64 last)
{
	if (first - walk->window_at < WINDOW_BYTES && last - walk->window_at < WINDOW_BYTES)
		return;
	walk->window_at = first;
	/* At the end of a mapping there may not be so much. */
	if (bpf_probe_read_user(walk->window, WINDOW_BYTES, (void *)first))
		walk->window_at = NO_WINDOW;
}

/* Reads a word of the stack, from the window if it is there. */
static __always_inline bool read_stack(struct stack_walk *walk, __u64 *word, __u64 address)
{
	__u64 offset = address - walk->window_at, place;

	if (offset >= WINDOW_BYTES || offset % sizeof(__u64))
		return read_word(word, address);
	place = offset / sizeof(__u64);
	/* The compiler knows that it is in the window, the verifier does not. */
	barrier_var(place);
	*word = walk->window[place & (WINDOW_WORDS - 1)];
	return true;
}

/* Reads what the frame below @cfa keeps of its caller, by its rule as a word. 0: it can't be read.
 */
__noinline int read_caller(struct walked_stack *stack, __u64 word, __u64 cfa)
{
	struct unwind_rule rule = *(struct unwind_rule *)&word;
	__u64 first = cfa - sizeof(__u64), rbp;
	struct stack_walk *walk;

	if (!walks_stacks() || !stack)
		return 0;
	walk = &stack->walk;
	rbp = walk->rbp;
	if (rule.rbp == RBP_AT_CFA && rule.rbp_offset < 0)
		first = cfa + rule.rbp_offset;
	move_window(walk, first, cfa - 1);
	if (rule.rbp == RBP_UNKNOWN)
		walk->rbp = 0;
	if (rule.rbp == RBP_AT_CFA && !read_stack(walk, &walk->rbp, cfa + rule.rbp_offset))
		return 0;
	if (rule.rbp == RBP_AT_RBP && !read_stack(walk, &walk->rbp, rbp + rule.rbp_offset))
		return 0;
	return read_stack(walk, &walk->caller, cfa - sizeof(__u64));
}

/* The CFA of the frame, by its rule; 0 if that does not say. */
static __always_inline __u64 find_cfa(const struct stack_walk *walk, const struct unwind_rule *rule)
{
	__u64 cfa = 0;

	switch (rule->cfa) {
	case CFA_RSP:
		return walk->sp + rule->cfa_offset;
	case CFA_RBP:
		return walk->rbp ? walk->rbp + rule->cfa_offset : 0;
	case CFA_AT_RBP:
		return walk->rbp && read_word(&cfa, walk->rbp + rule->cfa_offset) ? cfa : 0;
	case CFA_PLT:
		return walk->sp + ((walk->pc & 15) >= (__u32)rule->cfa_offset ? 16 : 8);
	case CFA_FRAME_POINTER:
		return walk->rbp >= walk->sp ? walk->rbp + 16 : 0;
	default:
		return 0;
	}
}

/* Goes to the caller, or says that the walk is over. */
__noinline int walk_frame(struct walked_stack *stack)
{
	struct unwind_rule rule;
	struct stack_walk *walk;
	__u64 word, cfa, caller;
	__u32 frames;

	if (!walks_stacks() || !stack)
		return 1;
	walk = &stack->walk;
	frames = walk->frames;
	if (frames >= WALKED_FRAMES)
		return 1;
	word = find_rule(walk->pc, walk->generation);
	rule = *(struct unwind_rule *)&word;
	if (rule.cfa == CFA_OUTERMOST) {
		walk->is_whole = 1;
		return 1;
	}
	cfa = find_cfa(walk, &rule);
	if (cfa <= walk->sp)
		return 1;
	if (!read_caller(stack, word, cfa))
		return 1;
	caller = walk->caller;
	if (rule.cfa == CFA_FRAME_POINTER && !is_after_call(caller))
		return 1;
	if (!caller) {
		walk->is_whole = 1;
		return 1;
	}
	stack->user[frames & (WALKED_FRAMES - 1)] = caller;
	walk->frames = frames + 1;
	walk->pc = caller - 1;
	walk->sp = cfa;
	return 0;
}

/* Begins with the registers that were taken. */
static __always_inline void begin_walk(struct walked_stack *stack)
{
	stack->walk.is_whole = 0;
	stack->walk.window_at = NO_WINDOW;
	stack->walk.frames = 1;
	stack->walk.pc = stack->user[0] = stack->stacks.registers[WALK_PC];
	stack->walk.sp = stack->stacks.registers[WALK_SP];
	stack->walk.rbp = stack->stacks.registers[WALK_FP];
}

#define FRAMES_AT_ONCE 16

/* Walks so many frames. 1: the walk is over. */
__noinline int walk_frames(struct walked_stack *stack)
{
	if (!walks_stacks() || !stack)
		return 1;
	for (int i = 0; i < FRAMES_AT_ONCE; i++)
		if (walk_frame(stack))
			return 1;
	return 0;
}

/* Goes on as far as it can; the outcome is in the stack's walk. */
static __always_inline void walk_stack(struct walked_stack *stack)
{
	for (int i = 0; i < WALKED_FRAMES / FRAMES_AT_ONCE; i++)
		if (walk_frames(stack))
			break;
}

#endif
