/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Copies a deep user stack: the pages that unwinding needs.
 *
 * A return address, and the registers that a function saves, lie at its
 * frame's edges. A thread of Open vSwitch that has packets to handle has
 * frames of 457 KB, so the pages within those of large frames are left out,
 * where the calling convention puts the return address at the frame's edge
 * (x86-64). A word that only looks like such an address can lead astray: then
 * pages are missing, which user space notices as it unwinds.
 */
#ifndef KERNEL_DELAY_DEEP_STACK_H
#define KERNEL_DELAY_DEEP_STACK_H

#include "stack.h"

#define LARGE_FRAMES_BITS 11
#define CODE_RANGES_BITS 10
_Static_assert(LARGE_FRAMES == 1 << LARGE_FRAMES_BITS, "");
_Static_assert(CODE_RANGES == 1 << CODE_RANGES_BITS, "");

/* Six registers can be saved next to the return address: System V ABI for x86-64, 3.2.1. */
#define SAVED_REGISTERS (7 * sizeof(__u64))

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

/* Where large frames are looked for. */
struct frame_search {
	__u64 at; /* the address of the page */
	__u64 from; /* below it nothing is */
	__u64 stack_end;
};

/*
 * Where the large frame ends that begins above the word at @place of the page; 0 if that is no
 * return address into such a function, or the frame ends at none.
 */
__attribute__((noinline)) __u64 frame_end(const struct stack_page *page, __u32 place,
					  const struct frame_search *search)
{
	const struct large_frames *table = find_large_frames();
	const struct large_frame *frame;
	__u64 at, end, caller = 0;
	long found;

	if (!table || !page || !search)
		return 0;
	place &= WORDS_PER_PAGE - 1;
	at = search->at + place * sizeof(__u64);
	if (at < search->from)
		return 0;
	found = find_large_frame(page->words[place]);
	if (found < 0)
		return 0;
	frame = &table->frames[found & (LARGE_FRAMES - 1)];
	end = at + sizeof(__u64) + frame->size;
	if (end < at + LARGE_FRAME || end >= search->stack_end ||
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

/* Where the first large frame ends that begins in the words from @first on; 0 if none begins. */
__attribute__((noinline)) __u64 frame_end_among(const struct stack_page *page, __u32 first,
						const struct frame_search *search)
{
	__u32 words;
	__u64 end;

	if (!copies_stacks() || !page || !search)
		return 0;
	words = frames_among(page, first);
	if (!words)
		return 0;
	for (__u32 i = 0; i < WORDS_AT_ONCE; i++) {
		end = words >> i & 1 ? frame_end(page, first + i, search) : 0;
		if (end)
			return end;
	}
	return 0;
}

/* The same of the whole page. */
__attribute__((noinline)) __u64 large_frame_end(const struct stack_page *page,
						const struct frame_search *search)
{
	__u64 end;

	if (!copies_stacks() || !page || !search)
		return 0;
	for (__u32 first = 0; first < WORDS_PER_PAGE; first += WORDS_AT_ONCE) {
		end = frame_end_among(page, first, search);
		if (end)
			return end;
	}
	return 0;
}

/* Of the first page only what is above the stack pointer counts. */
#define DEEP_STACK (options.stack_bytes + STACK_PAGE)

/*
 * An event whose size turns out as its stack is taken is made here first. User space sets the
 * sizes: a struct syscall_event and all that follows it, for each CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 65536);
	__uint(max_entries, 1);
} scratch_events SEC(".maps");

static __always_inline struct syscall_event *scratch_event(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&scratch_events, &cpu);
}

enum page_end { PAGE_IS_LAST, PAGE_IS_FOLLOWED }; /* or else where the large frame on it ends */

/*
 * Copies one page of a deep stack, and says how to go on. Not static, as the functions
 * of stack.h: in its caller's loop it would be verified with each page.
 */
__noinline __u64 copy_deep_page(__u64 first, __u64 at, __u64 from)
{
	const struct large_frames *table = find_large_frames();
	struct syscall_event *event = scratch_event();
	struct frame_search search = {at, from, 0};
	const struct stack_page *copy;
	struct event_stacks *stacks;
	bool over;

	if (!copies_stacks() || !event || !table)
		return PAGE_IS_LAST;
	stacks = (void *)(event + 1);
	copy = copy_page(stacks, first, at, DEEP_STACK, &over);
	if (over)
		return PAGE_IS_LAST;
	if (!copy || !table->frame_count)
		return PAGE_IS_FOLLOWED;
	search.stack_end = stacks->stack_end;
	return large_frame_end(copy, &search) ?: PAGE_IS_FOLLOWED;
}

/* How far a deep stack is copied, and from where on frames on it are looked at. */
struct deep_copy {
	__u64 first;
	__u64 at;
	__u64 from;
};

#define PAGES_AT_ONCE 8

/* Copies so many pages, without what lies within large frames. Was that all? As copy_deep_page().
 */
__noinline bool copy_deep_pages(struct deep_copy *copy)
{
	__u64 end;

	if (!copies_stacks() || !copy)
		return true;
	for (int i = 0; i < PAGES_AT_ONCE; i++) {
		end = copy_deep_page(copy->first, copy->at, copy->from);
		if (end == PAGE_IS_LAST)
			return true;
		copy->at += STACK_PAGE;
		if (end != PAGE_IS_FOLLOWED) {
			copy->from = end - sizeof(__u64);
			copy->at = (end - SAVED_REGISTERS) & ~(STACK_PAGE - 1ull);
		}
	}
	return false;
}

/* Copies the stack from @sp on. */
static __always_inline void copy_deep_stack(__u64 sp)
{
	__u64 first = sp & ~(STACK_PAGE - 1ull);
	struct deep_copy copy = {first, first, sp};

	for (int i = 0; i < STACK_PAGES_SEARCHED / PAGES_AT_ONCE; i++)
		if (copy_deep_pages(&copy))
			break;
}

#endif
