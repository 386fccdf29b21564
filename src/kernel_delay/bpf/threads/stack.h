/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The pages of a user stack that unwinding needs.
 *
 * A return address, and the registers that a function saves, lie at its
 * frame's edges. A thread of Open vSwitch that has packets to handle has
 * frames of 457 KB, so the pages within those of large frames are left out,
 * where the calling convention puts the return address at the frame's edge
 * (x86-64). A word that only looks like such an address can lead astray: then
 * pages are missing, which user space notices as it unwinds.
 */
#ifndef KERNEL_DELAY_STACK_H
#define KERNEL_DELAY_STACK_H

#include "event_records.h"
#include "window.h"

/*
 * Constants to the verifier: what is off costs it nothing. Before 6.8 it looks at functions that
 * are not static even if nothing calls them, so that each begins with what it is there for.
 */
static __always_inline bool copies_stacks(void)
{
	return reports_events() && options.stack_mode == STACK_COPY;
}

#define LARGE_FRAMES_BITS 11
#define CODE_RANGES_BITS 10
_Static_assert(LARGE_FRAMES == 1 << LARGE_FRAMES_BITS, "");
_Static_assert(CODE_RANGES == 1 << CODE_RANGES_BITS, "");

#define WORDS_PER_PAGE (STACK_PAGE / sizeof(__u64))

/* Six registers can be saved next to the return address: System V ABI for x86-64, 3.2.1. */
#define SAVED_REGISTERS (7 * sizeof(__u64))

struct stack_page {
	__u64 words[WORDS_PER_PAGE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct large_frames);
} large_frames SEC(".maps");

static __always_inline struct large_frames *find_large_frames(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&large_frames, &key);
}

/*
 * These are functions of their own, which the verifier looks at once each: in
 * one with their callers' loops it would follow too many ways. They must not be
 * static, else it looks at them with each call (kernel/bpf/verifier.c,
 * check_func_call() of 5.14).
 */

/*
 * Is @one below @other? 1 or 0, without a branch, of which the verifier would follow both ways in
 * each step of a search: the borrow of their difference. The compiler must not know what it is.
 */
static __always_inline __u64 is_below(__u64 one, __u64 other)
{
	__u64 borrow = (~one & other) | (~(one ^ other) & (one - other));

	barrier_var(borrow);
	borrow >>= 63;
	barrier_var(borrow);
	return borrow;
}

/* The place of the frame above @address, a return address; below 0 if it is none, or not large. */
__attribute__((noinline)) long find_large_frame(__u64 address)
{
	const struct large_frames *table = find_large_frames();
	const struct large_frame *frame;
	__u64 found = 0, next;

	if (!copies_stacks() || !table)
		return -1;
	/* The last that begins below @address, bit by bit. */
	for (int bit = LARGE_FRAMES_BITS - 1; bit >= 0; bit--) {
		next = (found | 1ull << bit) & (LARGE_FRAMES - 1);
		found |= (is_below(next, table->frame_count) &
			  is_below(table->frames[next].start, address))
			 << bit;
	}
	found &= LARGE_FRAMES - 1;
	frame = &table->frames[found];
	if (!table->frame_count || address <= frame->start || address > frame->end)
		return -1;
	return found;
}

__attribute__((noinline)) int is_code(__u64 address)
{
	const struct large_frames *table = find_large_frames();
	const struct code_range *range;
	__u64 found = 0, next;

	if (!copies_stacks() || !table)
		return 0;
	for (int bit = CODE_RANGES_BITS - 1; bit >= 0; bit--) {
		next = (found | 1ull << bit) & (CODE_RANGES - 1);
		found |= (is_below(next, table->code_count) &
			  ~is_below(address, table->code[next].start))
			 << bit;
	}
	range = &table->code[found & (CODE_RANGES - 1)];
	return table->code_count && address >= range->start && address < range->end;
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

/*
 * Whether @caller, which is code, may be where @function returns to: before it is a call
 * of the function (opcode E8), or through a pointer.
 */
__attribute__((noinline)) int may_return_to(__u64 caller, __u64 function)
{
	__u8 bytes[8] = {};
	__s32 relative;

	if (bpf_probe_read_user(bytes, sizeof(bytes), (void *)(caller - sizeof(bytes))))
		return 0;
	__builtin_memcpy(&relative, bytes + 4, sizeof(relative));
	if (bytes[3] == 0xe8 && caller + (__s64)relative == function)
		return 1;
	return is_indirect_call(bytes);
}

/*
 * Where the large frame ends that begins above @place, which holds @word; 0 if
 * that is no return address into such a function, or it ends at none.
 */
__attribute__((noinline)) __u64 frame_end(__u64 place, __u64 word, __u64 stack_end)
{
	const struct large_frames *table = find_large_frames();
	const struct large_frame *frame;
	__u64 end, caller = 0;
	long found;

	if (!table)
		return 0;
	found = find_large_frame(word);
	if (found < 0)
		return 0;
	frame = &table->frames[found & (LARGE_FRAMES - 1)];
	end = place + sizeof(__u64) + frame->size;
	if (end < place + LARGE_FRAME || end >= stack_end ||
	    bpf_probe_read_user(&caller, sizeof(caller), (void *)(end - sizeof(caller))))
		return 0;
	return is_code(caller) && may_return_to(caller, frame->function) ? end : 0;
}

/* So many words are looked at in one function, as the verifier follows each step of a loop. */
#define WORDS_AT_ONCE 16

/* A bit for each of the words from @first on: is it maybe an address in a large frame's function?
 */
__attribute__((noinline)) __u32 frames_among(const struct stack_page *page, __u32 first)
{
	const struct large_frames *table = find_large_frames();
	const __u64 *words;
	__u32 found = 0;

	if (!copies_stacks() || !table || !page)
		return 0;
	words = &page->words[first & (WORDS_PER_PAGE - WORDS_AT_ONCE)];
#pragma unroll
	for (int i = 0; i < WORDS_AT_ONCE; i++) {
		__u64 code_page = words[i] / STACK_PAGE;
		__u64 filter = table->filter[code_page / 64 & (FRAME_FILTER_WORDS - 1)];

		found |= (filter >> (code_page & 63) & 1) << i;
	}
	return found;
}

/*
 * Where the first large frame ends that begins in the words from @first on of the page of address
 * @at, at @from or above it; 0 if none begins.
 */
__attribute__((noinline)) __u64 frame_end_among(const struct stack_page *page, __u32 first,
						__u64 at, __u64 from, __u64 stack_end)
{
	__u32 words;
	__u64 end;

	if (!copies_stacks() || !page)
		return 0;
	words = frames_among(page, first);
	if (!words)
		return 0;
	for (__u32 i = 0; i < WORDS_AT_ONCE; i++) {
		__u32 place = (first + i) & (WORDS_PER_PAGE - 1);

		if (!(words >> i & 1) || at + place * sizeof(__u64) < from)
			continue;
		end = frame_end(at + place * sizeof(__u64), page->words[place], stack_end);
		if (end)
			return end;
	}
	return 0;
}

/* The same of the whole page. */
__attribute__((noinline)) __u64 large_frame_end(const struct stack_page *page, __u64 at, __u64 from,
						__u64 stack_end)
{
	__u64 end;

	if (!copies_stacks() || !page)
		return 0;
	for (__u32 first = 0; first < WORDS_PER_PAGE; first += WORDS_AT_ONCE) {
		end = frame_end_among(page, first, at, from, stack_end);
		if (end)
			return end;
	}
	return 0;
}

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

#endif
