/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * From where a waker wakes: its kernel stack, and a copy of its program's, which user space
 * unwinds. To copy each would take more than to wake. So one is copied for all that come from
 * the same slot in the kernel, of the same instruction of the same process, with a program's
 * stack that is as deep: these have the same callers but for what recursion can make alike.
 */
#ifndef KERNEL_DELAY_WAKER_STACK_H
#define KERNEL_DELAY_WAKER_STACK_H

#include "event.h"
#include "run_queue.h"

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
