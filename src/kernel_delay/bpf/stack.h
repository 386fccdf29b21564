/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Takes stacks: of the kernel where threads slept, each kept once, and of programs by pages, with
 * the registers, for user space to unwind.
 */
#ifndef KERNEL_DELAY_STACK_H
#define KERNEL_DELAY_STACK_H

#include "event_records.h"
#include "thread.h"

/*
 * Constants to the verifier: what is off costs it nothing. Before 6.8 it looks at functions that
 * are not static even if nothing calls them, so that each begins with what it is there for.
 */
static __always_inline bool copies_stacks(void)
{
	return reports_events() && options.stack_mode == STACK_COPY;
}

#define WORDS_PER_PAGE (STACK_PAGE / sizeof(__u64))

struct stack_page {
	__u64 words[WORDS_PER_PAGE];
};

/*
 * Copies the page at @at behind what was copied of the stack that begins on the
 * page @first, if there is @room. A page that can't be read is skipped: there are
 * buffers with pages that were never touched. What was copied is counted in
 * memory, where the verifier does not follow it through every combination of
 * pages. Returns the copy, or NULL; @over says whether it was the last.
 */
static __always_inline const struct stack_page *
copy_page(volatile struct event_stacks *stacks, __u64 first, __u64 at, const __u32 room, bool *over)
{
	__u64 page = (at - first) / STACK_PAGE;
	__u32 copied = stacks->user_bytes;
	void *copy;

	*over = copied > room - STACK_PAGE || at >= stacks->stack_end ||
		page >= STACK_PAGES_SEARCHED;
	if (*over)
		return NULL;
	copy = (void *)(stacks + 1) + copied;
	if (bpf_probe_read_user(copy, STACK_PAGE, (void *)at))
		return NULL;
	stacks->pages[page / 64 & (STACK_PAGES_WORDS - 1)] |= 1ull << (page & 63);
	stacks->user_bytes = copied + STACK_PAGE;
	return copy;
}

static __always_inline void begin_copy(volatile struct event_stacks *stacks)
{
	stacks->user_bytes = 0;
	for (int i = 0; i < STACK_PAGES_WORDS; i++)
		stacks->pages[i] = 0;
}

/*
 * Most stacks are shallow, and are copied to where they are read from. How
 * much of a deep one matters turns out while it is copied, so that is done in
 * a place of the CPU's own first.
 */
#define SHALLOW_STACK (4 * STACK_PAGE)

struct shallow_stack {
	struct event_stacks stacks;
	__u8 content[SHALLOW_STACK];
};

/* Copies @most pages from @sp on to behind @stacks. */
static __always_inline void copy_pages(struct event_stacks *stacks, __u64 sp, const __u32 most)
{
	__u64 first = sp & ~(STACK_PAGE - 1ull);
	bool over = false;

	begin_copy(stacks);
	for (__u32 i = 0; i < most && !over; i++)
		copy_page(stacks, first, first + i * STACK_PAGE, most * STACK_PAGE, &over);
}

/* The same of a shallow stack. Not static, so that it is verified once, by itself. */
__noinline int copy_shallow_stack(struct shallow_stack *stack, __u64 sp)
{
	if (stack)
		copy_pages(&stack->stacks, sp, SHALLOW_STACK / STACK_PAGE);
	return 0;
}

/*
 * Where the stack that @sp is in ends. libc puts a thread's control block, to
 * which the thread pointer points, on top of the thread's stack.
 */
static __always_inline __u64 stack_end(struct task_struct *task, __u64 sp)
{
	__u64 control_block = task->THREAD_POINTER;
	__u64 first = task->mm->start_stack;

	if (control_block - sp < STACK_PAGES_SEARCHED * STACK_PAGE)
		return control_block;
	if (first - sp < STACK_PAGES_SEARCHED * STACK_PAGE)
		return first;
	return sp + options.stack_bytes;
}

/* @regs are the current thread's, of its program. */
static __always_inline void take_registers(struct event_stacks *stacks, __u64 regs, __u64 end)
{
	bpf_probe_read_kernel(stacks->registers, REGISTERS_SAVED * sizeof(__u64), (void *)regs);
	stacks->stack_end = end;
	stacks->pages[0] = 0;
}

static __always_inline __u64 stack_pointer(__u64 regs)
{
	__u64 sp = 0;

	bpf_probe_read_kernel(&sp, sizeof(sp), (__u64 *)regs + STACK_POINTER);
	return sp;
}

/*
 * Do these eight bytes end with a call through a pointer (opcode FF /2)? Its address has 0, 1, 2, 4
 * or 5 bytes after the second.
 */
static __always_inline bool is_indirect_call(const __u8 *bytes)
{
	return (bytes[1] == 0xff && (bytes[2] & 0x38) == 0x10) ||
	       (bytes[2] == 0xff && (bytes[3] & 0x38) == 0x10) ||
	       (bytes[4] == 0xff && (bytes[5] & 0x38) == 0x10) ||
	       (bytes[5] == 0xff && (bytes[6] & 0x38) == 0x10) ||
	       (bytes[6] == 0xff && (bytes[7] & 0x38) == 0x10);
}

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

/*
 * Where in the kernel threads slept: each stack is kept once.
 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLEEP_STACKS);
	__type(key, __u32);
	__type(value, struct sleep_stack);
} sleep_stacks SEC(".maps");

/* Where a stack is taken to: a waker can interrupt the iterator, and none another. */
enum stack_reader { READ_BY_WAKER, READ_BY_ITERATOR, STACK_READERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STACK_READERS);
	__type(key, __u32);
	__type(value, struct sleep_stack);
} taken_stacks SEC(".maps");

struct stack_search {
	__u64 hash;
	__u64 found; /* in the slot that was looked at last; 0: it was taken for the stack */
	__u32 slot;
	__u32 next; /* slot to look at */
};

/* Returns whether the next slot is the stack's. Not static, for REPEAT. */
__noinline int try_slot(struct stack_search *search)
{
	struct sleep_stack *kept;
	__u32 slot;

	if (!options.accounting || !search)
		return 1;
	slot = search->next++ & (SLEEP_STACKS - 1);
	kept = bpf_map_lookup_elem(&sleep_stacks, &slot);
	if (!kept)
		return 1;
	search->slot = slot;
	/* Mostly it is there, and an atomic write would take the line from other CPUs. */
	search->found = *(volatile __u64 *)&kept->hash;
	if (!search->found)
		search->found = __sync_val_compare_and_swap(&kept->hash, 0, search->hash);
	return !search->found || search->found == search->hash;
}

STEP(try_slot, struct stack_search)

/*
 * The slot of a stack, and 1; 0 if there is none left. Not static, so that it is
 * verified once, by itself.
 */
__noinline __u32 keep_stack(struct sleep_stack *taken)
{
	struct stack_search search = {.hash = 14695981039346656037ULL}; /* FNV-1a, by words */
	struct sleep_stack *kept;
	__u32 slot;

	if (!taken)
		return 0;
#pragma unroll
	for (int i = 0; i < SLEEP_FRAMES; i++)
		search.hash = (search.hash ^ taken->frames[i]) * 1099511628211ULL;
	search.hash |= 1;
	search.next = search.hash >> 32;
	REPEAT(SLEEP_STACKS_TRIED, try_slot, &search);
	slot = search.slot;
	kept = bpf_map_lookup_elem(&sleep_stacks, &slot);
	if (!kept || kept->hash != search.hash)
		return 0;
	if (!search.found) {
		bpf_probe_read_kernel(kept->frames, sizeof(kept->frames), taken->frames);
		barrier();
		kept->written = 1;
	}
	return slot + 1;
}

/* Where @task sleeps: as keep_stack() has it; 0 if the kernel does not say. */
static __noinline __u32 sleep_stack(struct task_struct *task, __u32 reader)
{
	struct sleep_stack *taken = bpf_map_lookup_elem(&taken_stacks, &reader);

	if (!taken)
		return 0;
	clear(taken->frames, sizeof(taken->frames));
	if (bpf_get_task_stack(task, taken->frames, sizeof(taken->frames), 0) <= 0)
		return 0;
	return keep_stack(taken);
}

/*
 * From where a waker wakes: its kernel stack, and a copy of its program's, which user space
 * unwinds. To copy each would take more than to wake. So one is copied for all that come from
 * the same slot in the kernel, of the same instruction of the same process, with a program's
 * stack that is as deep: these have the same callers but for what recursion can make alike.
 */

/* User space sets how many: 1 where they are not asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waker_stack);
} waker_stacks SEC(".maps");

/* What two wakes have alike that one stack stands for, and where the kernel's is taken to. */
struct waker_place {
	__u64 process;
	__u64 instruction;
	__u64 depth;
	__u64 kernel[SLEEP_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waker_place);
} waker_places SEC(".maps");

/* Copies the current task's stacks to @stack, which is no other's. */
static __always_inline void copy_waker_stack(struct waker_stack *stack, struct waker_place *at,
					     struct task_struct *current)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(current);

	for (int i = 0; i < SLEEP_FRAMES; i++) {
		stack->stacks.kernel[i] = at->kernel[i];
		if (at->kernel[i])
			stack->stacks.kernel_frames = i + 1;
	}
	stack->process = options.pid_level ? inner_task_id(BPF_CORE_READ(current, group_leader),
							   options.pid_level)
					   : current->tgid;
	if (at->depth) {
		bpf_probe_read_kernel(stack->stacks.registers, REGISTERS_SAVED * sizeof(__u64),
				      regs);
		stack->stacks.stack_end = stack_end(current, at->depth);
		copy_shallow_stack((void *)&stack->stacks, at->depth);
	}
	barrier();
	stack->written = 1;
}

/*
 * The slot of the stack that the current task wakes from, and 1; 0 if there is none left. Not
 * static, so that it is verified once, by itself.
 */
__noinline __u32 waker_stack(void)
{
	struct task_struct *current = bpf_get_current_task_btf();
	__u64 hash = 14695981039346656037ULL, found; /* FNV-1a, by words */
	struct pt_regs___syscall *regs;
	struct waker_stack *stack;
	struct waker_place *at;
	__u32 slot, only = 0;

	at = bpf_map_lookup_elem(&waker_places, &only);
	if (!at || !HAS_TASK_PT_REGS)
		return 0;
	__builtin_memset(at, 0, sizeof(*at));
	bpf_get_task_stack(current, at->kernel, sizeof(at->kernel), 0);
	at->process = current->tgid;
	if (!(current->flags & PF_KTHREAD)) {
		regs = (struct pt_regs___syscall *)bpf_task_pt_regs(current);
		bpf_probe_read_kernel(&at->instruction, sizeof(__u64),
				      (__u64 *)regs + INSTRUCTION_POINTER);
		bpf_probe_read_kernel(&at->depth, sizeof(__u64), (__u64 *)regs + STACK_POINTER);
	}
	for (__u32 i = 0; i < sizeof(*at) / sizeof(__u64); i++)
		hash = (hash ^ ((__u64 *)at)[i]) * 1099511628211ULL;
	hash |= 1;
	for (int i = 0; i < SLEEP_STACKS_TRIED; i++) {
		slot = ((hash >> 32) + i) & (WAKER_STACKS - 1);
		stack = bpf_map_lookup_elem(&waker_stacks, &slot);
		if (!stack)
			return 0;
		found = *(volatile __u64 *)&stack->hash;
		if (!found)
			found = __sync_val_compare_and_swap(&stack->hash, 0, hash);
		if (!found)
			copy_waker_stack(stack, at, current);
		if (!found || found == hash)
			return slot + 1;
	}
	return 0;
}

#endif
