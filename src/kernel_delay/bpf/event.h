/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Single syscalls as events, with the stacks that they were made from.
 *
 * Most programs have no frame pointers, so the user stack is copied, with the
 * registers, for user space to unwind. When room gets scarce stacks are given
 * up first, and events then; what is counted in tables never is.
 */
#ifndef KERNEL_DELAY_EVENT_H
#define KERNEL_DELAY_EVENT_H

#include "thread.h"

#if defined(__TARGET_ARCH_x86)
#define REGISTERS_SAVED 21
#define STACK_POINTER 19
#elif defined(__TARGET_ARCH_arm64)
#define REGISTERS_SAVED 33
#define STACK_POINTER 31
#endif

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* The most that a copy can take, and a page that keeps the verifier sure of it. */
#define EVENT_WITH_STACKS                                                                          \
	(sizeof(struct syscall_event) + sizeof(struct event_stacks) + options.stack_bytes +        \
	 STACK_PAGE)

static __always_inline bool is_event(__u64 syscall, __u64 length_ns)
{
	if (length_ns < options.event_ns)
		return false;
	if (syscall >= DIRECT_SYSCALLS)
		return options.other_events;
	return options.syscall_flags[syscall & (DIRECT_SYSCALLS - 1)] & SYSCALL_HAS_EVENTS;
}

/*
 * Copies the stack from @sp on, page by page. A page that can't be read is no
 * end: the frames of large buffers have pages that were never touched. Sets
 * @missing_pages, a bit for each; returns how many bytes there are.
 */
static __always_inline __u32 copy_stack(void *copy, __u64 sp, __u64 *missing_pages)
{
	__u32 chunk = STACK_PAGE - (sp & (STACK_PAGE - 1));
	__u32 copied = 0, end = 0;
	__u64 missing = 0;

	for (int page = 0; page <= STACK_BYTES_MAX / STACK_PAGE; page++) {
		if (copied >= options.stack_bytes)
			break;
		if (bpf_probe_read_user(copy + copied, chunk & (2 * STACK_PAGE - 1), (void *)sp))
			missing |= 1ull << page;
		else
			end = copied + chunk;
		copied += chunk;
		sp += chunk;
		chunk = STACK_PAGE;
	}
	*missing_pages = missing;
	return end < options.stack_bytes ? end : options.stack_bytes;
}

static __always_inline void take_stacks(void *ctx, struct pt_regs *regs,
					struct event_stacks *stacks)
{
	long bytes;

	bytes = bpf_get_stack(ctx, stacks->kernel, sizeof(stacks->kernel), 0);
	stacks->kernel_frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
	bpf_probe_read_kernel(stacks->registers, REGISTERS_SAVED * sizeof(__u64), regs);
	if (options.stack_mode == STACK_COPY) {
		stacks->user_bytes = copy_stack(stacks + 1, stacks->registers[STACK_POINTER],
						&stacks->missing_pages);
	} else {
		stacks->missing_pages = 0;
		bytes = bpf_get_stack(ctx, stacks + 1, USER_FRAMES * sizeof(__u64),
				      BPF_F_USER_STACK);
		stacks->user_bytes = bytes > 0 ? bytes : 0;
	}
}

static __always_inline void fill_event(struct syscall_event *event, struct thread *thread,
				       __s64 value, const struct moment *moment)
{
	event->entry_ns = thread->syscall_since_ns;
	event->exit_ns = moment->now_ns;
	event->value = value;
	event->syscall = thread->syscall;
	event->tid = thread->tid;
}

/* User space looks often enough by itself: waking it would cost more than an event. */
#define SUBMIT_FLAGS BPF_RB_NO_WAKEUP

static __always_inline bool report_with_stacks(void *ctx, struct pt_regs *regs,
					       struct thread *thread, __s64 value,
					       const struct moment *moment)
{
	struct syscall_event *event;

	/* The last half is for events without. */
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > options.event_bytes / 2)
		return false;
	event = bpf_ringbuf_reserve(&events, EVENT_WITH_STACKS, 0);
	if (!event)
		return false;
	fill_event(event, thread, value, moment);
	event->stack_mode = options.stack_mode;
	take_stacks(ctx, regs, (void *)(event + 1));
	bpf_ringbuf_submit(event, SUBMIT_FLAGS);
	return true;
}

/* Reports the call that @thread now leaves. */
static __always_inline void report_syscall(void *ctx, struct pt_regs *regs, struct thread *thread,
					   __s64 value, const struct moment *moment)
{
	struct syscall_event *event;

	if (options.stack_mode != STACK_NONE &&
	    report_with_stacks(ctx, regs, thread, value, moment))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_up(&control.missed_syscall_events);
		return;
	}
	if (options.stack_mode != STACK_NONE)
		count_up(&control.missed_stacks);
	fill_event(event, thread, value, moment);
	event->stack_mode = STACK_NONE;
	bpf_ringbuf_submit(event, SUBMIT_FLAGS);
}

#endif
