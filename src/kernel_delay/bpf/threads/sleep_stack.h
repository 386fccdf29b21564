/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where in the kernel threads slept: each stack is kept once.
 */
#ifndef KERNEL_DELAY_SLEEP_STACK_H
#define KERNEL_DELAY_SLEEP_STACK_H

#include "kernel.h"
#include "thread_records.h"

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

#endif
