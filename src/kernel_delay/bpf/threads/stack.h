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
#include "kernel.h"

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

/* The place of the frame above @address, a return address; below 0 if it is none, or not large. */
__attribute__((noinline)) long find_large_frame(__u64 address)
{
	const struct large_frames *table = find_large_frames();
	__u32 low = 0, high;

	if (!table)
		return -1;
	high = table->frame_count;
	/* LARGE_FRAMES is 2^11. */
	for (int step = 0; step < 12 && low < high; step++) {
		__u32 middle = (low + high) / 2;
		const struct large_frame *frame = &table->frames[middle & (LARGE_FRAMES - 1)];

		if (address <= frame->start)
			high = middle;
		else if (address > frame->end)
			low = middle + 1;
		else
			return middle & (LARGE_FRAMES - 1);
	}
	return -1;
}

__attribute__((noinline)) int is_code(__u64 address)
{
	const struct large_frames *table = find_large_frames();
	__u32 low = 0, high;

	if (!table)
		return 0;
	high = table->code_count;
	/* CODE_RANGES is 2^10. */
	for (int step = 0; step < 11 && low < high; step++) {
		__u32 middle = (low + high) / 2;
		const struct code_range *range = &table->code[middle & (CODE_RANGES - 1)];

		if (address < range->start)
			high = middle;
		else if (address >= range->end)
			low = middle + 1;
		else
			return 1;
	}
	return 0;
}

/*
 * Whether @caller may be where @function returns to: code, and before it a call
 * of the function, or through a pointer (opcodes E8 and FF /2).
 */
__attribute__((noinline)) int may_return_to(__u64 caller, __u64 function)
{
	__u8 bytes[8] = {};
	__s32 relative;

	if (!is_code(caller) ||
	    bpf_probe_read_user(bytes, sizeof(bytes), (void *)(caller - sizeof(bytes))))
		return 0;
	__builtin_memcpy(&relative, bytes + 4, sizeof(relative));
	if (bytes[3] == 0xe8 && caller + (__s64)relative == function)
		return 1;
	/* With an address of 0, 1, 2, 4 or 5 bytes after the second. */
	return (bytes[1] == 0xff && (bytes[2] & 0x38) == 0x10) ||
	       (bytes[2] == 0xff && (bytes[3] & 0x38) == 0x10) ||
	       (bytes[4] == 0xff && (bytes[5] & 0x38) == 0x10) ||
	       (bytes[5] == 0xff && (bytes[6] & 0x38) == 0x10) ||
	       (bytes[6] == 0xff && (bytes[7] & 0x38) == 0x10);
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
	return may_return_to(caller, frame->function) ? end : 0;
}

/*
 * Where the first large frame ends that begins on the @page of address @at, at
 * @from or above it; 0 if none begins.
 */
__attribute__((noinline)) __u64 large_frame_end(const struct stack_page *page, __u64 at, __u64 from,
						__u64 stack_end)
{
	const struct large_frames *table = find_large_frames();

	if (!table || !page)
		return 0;
	for (__u32 i = 0; i < WORDS_PER_PAGE; i++) {
		__u64 place = at + i * sizeof(__u64), word = page->words[i];
		__u64 code_page = word / STACK_PAGE, end;

		if (place < from ||
		    !(table->filter[code_page / 64 & (FRAME_FILTER_WORDS - 1)] >> (code_page & 63) &
		      1))
			continue;
		end = frame_end(place, word, stack_end);
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

/* Copies the @pages from @sp on into the bytes after @stacks. */
static __always_inline void copy_stack(volatile struct event_stacks *stacks, __u64 sp,
				       const int pages)
{
	__u64 first = sp & ~(STACK_PAGE - 1ull);
	bool over = false;

	begin_copy(stacks);
	for (int i = 0; i < pages && !over; i++)
		copy_page(stacks, first, first + i * STACK_PAGE, pages * STACK_PAGE, &over);
}

#endif
