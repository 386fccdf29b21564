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

/*
 * The slot of a stack, and 1; 0 if there is none left. Not static, so that it is
 * verified once, by itself.
 */
__noinline __u32 keep_stack(struct sleep_stack *taken)
{
	__u64 hash = 14695981039346656037ULL, found; /* FNV-1a, by words */
	struct sleep_stack *kept;
	__u32 slot;

	if (!taken)
		return 0;
	for (int i = 0; i < SLEEP_FRAMES; i++)
		hash = (hash ^ taken->frames[i]) * 1099511628211ULL;
	hash |= 1;
	for (int i = 0; i < SLEEP_STACKS_TRIED; i++) {
		slot = ((hash >> 32) + i) & (SLEEP_STACKS - 1);
		kept = bpf_map_lookup_elem(&sleep_stacks, &slot);
		if (!kept)
			return 0;
		found = *(volatile __u64 *)&kept->hash;
		if (!found)
			found = __sync_val_compare_and_swap(&kept->hash, 0, hash);
		if (!found) {
			__builtin_memcpy(kept->frames, taken->frames, sizeof(kept->frames));
			barrier();
			kept->written = 1;
			return slot + 1;
		}
		if (found == hash)
			return slot + 1;
	}
	return 0;
}

/* Where @task sleeps: as keep_stack() has it; 0 if the kernel does not tell. */
static __noinline __u32 sleep_stack(struct task_struct *task, __u32 reader)
{
	struct sleep_stack *taken = bpf_map_lookup_elem(&taken_stacks, &reader);

	if (!taken)
		return 0;
	__builtin_memset(taken->frames, 0, sizeof(taken->frames));
	if (bpf_get_task_stack(task, taken->frames, sizeof(taken->frames), 0) <= 0)
		return 0;
	return keep_stack(taken);
}

#endif
