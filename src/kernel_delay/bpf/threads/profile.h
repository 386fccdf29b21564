/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a thread runs while its round is long already: a sample now and then, with its stacks.
 * One is an event without a system call, which begins and ends at the same time.
 */
#ifndef KERNEL_DELAY_PROFILE_H
#define KERNEL_DELAY_PROFILE_H

#include "event.h"

struct shallow_event {
	struct syscall_event event;
	struct shallow_stack stack;
};

/* Takes the kernel's stack of the current task. */
static __always_inline void take_kernel_stack(void *ctx, struct event_stacks *stacks)
{
	long bytes = bpf_get_stack(ctx, stacks->kernel, sizeof(stacks->kernel), 0);

	stacks->kernel_frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
}

/* The user's, of frames that are found by their pointers. */
static __always_inline void walk_user_stack(void *ctx, struct walked_event *event)
{
	long bytes = bpf_get_stack(ctx, event->user, sizeof(event->user), BPF_F_USER_STACK);

	event->stacks.user_bytes = bytes > 0 ? bytes : 0;
}

static __always_inline void fill_sample(struct syscall_event *event, const struct thread *thread,
					__u64 now_ns)
{
	event->entry_ns = now_ns;
	event->exit_ns = now_ns;
	event->off_cpu_ns = OFF_CPU_UNKNOWN;
	event->value = 0;
	event->syscall = NO_SYSCALL;
	event->tid = thread->tid;
	event->stack_mode = options.stack_mode;
}

/*
 * Reports what @thread runs now. A deep stack is cut: what it would be copied to first may be
 * in use by a call that this has interrupted.
 */
static __always_inline void report_sample(void *ctx, struct task_struct *task,
					  struct thread *thread, __u64 now_ns)
{
	__u64 regs = (__u64)bpf_task_pt_regs(task), sp = stack_pointer(regs);
	__u64 end = stack_end(task, sp);
	struct shallow_event *copied;
	struct walked_event *walked;

	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > options.event_bytes / 2)
		goto no_room;
	if (options.stack_mode != STACK_COPY && options.stack_mode != STACK_WALK) {
		walked = bpf_ringbuf_reserve(&events, sizeof(*walked), 0);
		if (!walked)
			goto no_room;
		fill_sample(&walked->event, thread, now_ns);
		take_kernel_stack(ctx, &walked->stacks);
		take_registers(&walked->stacks, regs, end);
		walk_user_stack(ctx, walked);
		bpf_ringbuf_submit(walked, SUBMIT_FLAGS);
		return;
	}
	copied = bpf_ringbuf_reserve(&events, sizeof(*copied), 0);
	if (!copied)
		goto no_room;
	fill_sample(&copied->event, thread, now_ns);
	take_kernel_stack(ctx, &copied->stack.stacks);
	take_registers(&copied->stack.stacks, regs, end);
	copy_shallow_stack(&copied->stack, sp);
	bpf_ringbuf_submit(copied, SUBMIT_FLAGS);
	return;
no_room:
	count_up(&control.missed_syscall_events);
}

#endif
