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

#include "event_records.h"
#include "stack.h"
#include "window.h"

/*
 * The table of the target's code, and how the rule of an instruction is found in it.
 *
 * User space changes the table as a whole: it puts another map in its place. What was found is
 * kept, since stacks are much alike: to search takes longer than all else of a frame.
 */

/* Constant to the verifier, see copies_stacks(). */
static __always_inline bool walks_stacks(void)
{
	return reports_events() && options.walks_stacks;
}

struct unwind_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_entry));
};

/* These maps are created only where stacks are walked. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct unwind_table);
} unwind_tables SEC(".maps");

/* A power of two: more call sites than most processes' stacks have. */
#define FOUND_RULES 8192

/*
 * Written by all CPUs without a lock. The key is the address, with the table's generation above
 * it, XOR the rule: of a slot that two write at once it does not fit.
 */
struct found_rule {
	__u64 key;
	__u64 rule;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FOUND_RULES);
	__type(key, __u32);
	__type(value, struct found_rule);
} found_rules SEC(".maps");

/* The table; NULL where there is none, and where stacks are not walked: then not even a map. */
static __always_inline void *unwind_table(void)
{
	__u32 only = 0;

	return walks_stacks() ? bpf_map_lookup_elem(&unwind_tables, &only) : NULL;
}

static __always_inline const struct unwind_header *unwind_header(void *table)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(table, &first);
}

/*
 * The last row of @entry that is not above @address, as the row itself; 0 if all are. The rows of
 * an entry are sorted, and those without an address are above all.
 */
static __always_inline __u64 row_in(const struct unwind_entry *entry, __u32 address)
{
	__u64 found = 0;

	for (int i = 0; i < UNWIND_WORDS; i++)
		if (entry->words[i] >> 32 <= address)
			found = entry->words[i];
	return found;
}

/* Not static, so that each is verified once: see stack.h. */

/* What is left of a search: the numbers of entries [low, high). */
struct entries {
	__u32 low;
	__u32 high;
};

/* Halves where the row of @address, in the file, may be. 1: that is one entry. */
__noinline int halve_rows(struct entries *left, __u32 address)
{
	const struct unwind_entry *entry;
	void *table = unwind_table();
	__u32 middle;

	if (!left || !table || left->low + 1 >= left->high)
		return 1;
	middle = left->low + (left->high - left->low) / 2;
	entry = bpf_map_lookup_elem(table, &middle);
	if (!entry)
		return 1;
	if (entry->words[0] >> 32 <= address)
		left->low = middle;
	else
		left->high = middle;
	return 0;
}

/* Halves where the range of @address may be. 1: that is found, or there is none. */
__noinline int halve_ranges(struct entries *left, __u64 address)
{
	const struct unwind_range *range;
	void *table = unwind_table();
	__u32 middle;

	if (!left || !table || left->low >= left->high)
		return 1;
	middle = (left->low + left->high) / 2;
	range = bpf_map_lookup_elem(table, &middle);
	if (!range)
		return 1;
	if (address < range->start) {
		left->high = middle;
	} else if (address >= range->end) {
		left->low = middle + 1;
	} else {
		left->low = middle;
		return 1;
	}
	return 0;
}

/* The row of @address, in the file, of the range's rows; 0 if there is none. */
__noinline __u64 find_row(__u32 first, __u32 entries, __u32 address)
{
	struct entries left = {first, first + entries};
	const struct unwind_entry *entry;
	void *table = unwind_table();

	if (!table)
		return 0;
	/* The entries of UNWIND_ROWS_MAX rows are 2^20. */
	for (int step = 0; step < 21; step++)
		if (halve_rows(&left, address))
			break;
	entry = bpf_map_lookup_elem(table, &left.low);
	return entry ? row_in(entry, address) : 0;
}

/* The number of the entry of the range of code that @address is in; 0 if it is in none. */
__noinline __u32 find_code(__u64 address)
{
	const struct unwind_header *header;
	struct entries left = {1, 1};
	const struct unwind_range *range;
	void *table = unwind_table();

	if (!table)
		return 0;
	header = unwind_header(table);
	if (!header)
		return 0;
	left.high += header->range_count;
	/* UNWIND_RANGES is below 2^12. */
	for (int step = 0; step < 13; step++)
		if (halve_ranges(&left, address))
			break;
	range = bpf_map_lookup_elem(table, &left.low);
	if (!range || left.low > header->range_count || address < range->start ||
	    address >= range->end)
		return 0;
	return left.low;
}

/* The rule of the instruction at @address, a struct unwind_rule as a word. */
__noinline __u64 search_rule(__u64 address)
{
	struct unwind_rule frame_pointer = {0, -16, CFA_FRAME_POINTER, RBP_AT_CFA};
	const struct unwind_header *header;
	const struct unwind_entry *rules;
	const struct unwind_range *range;
	void *table = unwind_table();
	__u32 found, number;
	__u64 row;

	if (!table)
		return 0;
	header = unwind_header(table);
	found = find_code(address);
	if (!header || !found)
		return 0;
	range = bpf_map_lookup_elem(table, &found);
	if (!range)
		return 0;
	if (!range->row_entries)
		return *(__u64 *)&frame_pointer;
	row = find_row(range->first_row, range->row_entries, address - range->bias);
	if (!row)
		return 0;
	number = row;
	found = header->first_rule + number / UNWIND_WORDS;
	rules = bpf_map_lookup_elem(table, &found);
	return rules ? rules->words[number & (UNWIND_WORDS - 1)] : 0;
}

/* The same, of what was found before if it can be. */
static __always_inline __u64 find_rule(__u64 address, __u64 generation)
{
	__u32 slot = (address ^ address >> 13) & (FOUND_RULES - 1);
	__u64 key = address | generation, rule;
	volatile struct found_rule *found;

	found = bpf_map_lookup_elem(&found_rules, &slot);
	if (!found)
		return 0;
	rule = found->rule;
	if ((found->key ^ rule) == key)
		return rule;
	rule = search_rule(address);
	found->key = key ^ rule;
	found->rule = rule;
	return rule;
}

/*
 * From frame to frame.
 */

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
	stack->walk.pc = stack->user[0] = stack->stacks.registers[INSTRUCTION_POINTER];
	stack->walk.sp = stack->stacks.registers[STACK_POINTER];
	stack->walk.rbp = stack->stacks.registers[FRAME_POINTER];
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
