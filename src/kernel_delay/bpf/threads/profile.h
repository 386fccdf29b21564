/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a thread runs while its round is long already: a sample now and then, with its stacks.
 * One is an event without a system call, which begins and ends at the same time.
 */
#ifndef KERNEL_DELAY_PROFILE_H
#define KERNEL_DELAY_PROFILE_H

#include "event.h"

/*
 * Reports what @thread runs now. A deep stack is cut: what it would be copied to first may be
 * in use by a call that this has interrupted.
 */
static __always_inline void report_sample(void *ctx, struct task_struct *task,
					  struct thread *thread, __u64 now_ns)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct syscall_event *event;
	struct event_stacks *stacks;
	__u64 sp = 0;

	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > options.event_bytes / 2)
		goto no_room;
	event = bpf_ringbuf_reserve(&events, EVENT_WITH_STACKS(SHALLOW_STACK), 0);
	if (!event)
		goto no_room;
	event->entry_ns = now_ns;
	event->exit_ns = now_ns;
	event->off_cpu_ns = OFF_CPU_UNKNOWN;
	event->value = 0;
	event->syscall = NO_SYSCALL;
	event->tid = thread->tid;
	event->stack_mode = options.stack_mode;
	stacks = (void *)(event + 1);
	bpf_probe_read_kernel(&sp, sizeof(sp), (__u64 *)regs + STACK_POINTER);
	take_stacks(ctx, regs, stacks, stack_end(task, sp));
	if (options.stack_mode == STACK_COPY)
		copy_stack((void *)stacks, sp, SHALLOW_STACK / STACK_PAGE);
	bpf_ringbuf_submit(event, SUBMIT_FLAGS);
	return;
no_room:
	count_up(&control.missed_syscall_events);
}

#endif
