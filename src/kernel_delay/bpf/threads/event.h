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

#include "stack.h"
#include "thread.h"

#if defined(__TARGET_ARCH_x86)
#define REGISTERS_SAVED 21
#define STACK_POINTER 19
#define THREAD_POINTER thread.fsbase
#elif defined(__TARGET_ARCH_arm64)
#define REGISTERS_SAVED 33
#define STACK_POINTER 31
#define THREAD_POINTER thread.uw.tp_value
#endif

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

#define EVENT_WITH_STACKS(bytes)                                                                   \
	(sizeof(struct syscall_event) + sizeof(struct event_stacks) + (bytes))

/*
 * Most stacks are shallow, and are copied to where they are read from. How
 * much of a deep one matters turns out while it is copied, so that is done in
 * a place of the CPU's own first.
 */
#define SHALLOW_STACK (4 * STACK_PAGE)
_Static_assert(SHALLOW_STACK == WAKER_STACK_BYTES, "");
/* Of the first page only what is above the stack pointer counts. */
#define DEEP_STACK (options.stack_bytes + STACK_PAGE)

/* User space sets the sizes: a struct syscall_event and all that follows it, for each CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 65536);
	__uint(max_entries, 1);
} deep_events SEC(".maps");

static __always_inline bool is_event(__u64 syscall, __u64 length_ns)
{
	if (length_ns < options.event_ns)
		return false;
	if (!is_flagged(syscall))
		return options.other_events;
	return syscall_flags(syscall) & SYSCALL_HAS_EVENTS;
}

/*
 * Where the stack that @sp is in ends. libc puts a thread's control block, to
 * which the thread pointer points, on top of the thread's stack.
 */
static __always_inline __u64 stack_end(struct task_struct *task, __u64 sp)
{
	__u64 control_block = task->THREAD_POINTER;
	__u64 first = task->mm->start_stack;

	if (control_block - sp < STACK_PAGES_SEARCHED * STACK_PAGE)
		return control_block;
	if (first - sp < STACK_PAGES_SEARCHED * STACK_PAGE)
		return first;
	return sp + options.stack_bytes;
}

/* Of the user stack what is not copied: frames by their pointers, if these are asked for. */
static __always_inline void take_stacks(void *ctx, struct pt_regs *regs,
					struct event_stacks *stacks, __u64 end)
{
	long bytes;

	bytes = bpf_get_stack(ctx, stacks->kernel, sizeof(stacks->kernel), 0);
	stacks->kernel_frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
	bpf_probe_read_kernel(stacks->registers, REGISTERS_SAVED * sizeof(__u64), regs);
	stacks->stack_end = end;
	if (options.stack_mode == STACK_COPY)
		return;
	stacks->pages[0] = 0;
	bytes = bpf_get_stack(ctx, stacks + 1, USER_FRAMES * sizeof(__u64), BPF_F_USER_STACK);
	stacks->user_bytes = bytes > 0 ? bytes : 0;
}

static __always_inline void fill_event(struct syscall_event *event, struct thread *thread,
				       __s64 value, const struct timestamp *timestamp)
{
	event->entry_ns = thread->syscall_since_ns;
	event->exit_ns = timestamp->now_ns;
	event->off_cpu_ns = options.accounting && thread->state == STATE_RUNNING
				    ? thread->off_cpu_ns
				    : OFF_CPU_UNKNOWN;
	event->value = value;
	event->syscall = thread->syscall;
	event->tid = thread->tid;
}

/* User space looks often enough by itself: waking it would cost more than an event. */
#define SUBMIT_FLAGS BPF_RB_NO_WAKEUP

static __always_inline bool report_shallow(void *ctx, struct pt_regs *regs, struct thread *thread,
					   __s64 value, const struct timestamp *timestamp, __u64 sp,
					   __u64 end)
{
	struct syscall_event *event;

	event = bpf_ringbuf_reserve(&events, EVENT_WITH_STACKS(SHALLOW_STACK), 0);
	if (!event)
		return false;
	fill_event(event, thread, value, timestamp);
	event->stack_mode = options.stack_mode;
	take_stacks(ctx, regs, (void *)(event + 1), end);
	if (options.stack_mode == STACK_COPY)
		copy_stack((void *)(event + 1), sp, SHALLOW_STACK / STACK_PAGE);
	bpf_ringbuf_submit(event, SUBMIT_FLAGS);
	return true;
}

static __always_inline struct syscall_event *deep_event(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&deep_events, &cpu);
}

enum page_end { PAGE_IS_LAST, PAGE_IS_FOLLOWED }; /* or else where the large frame on it ends */

/*
 * Copies one page of a deep stack, and says how to go on. Not static, as the functions
 * of stack.h: in its caller's loop it would be verified with each page.
 */
__noinline __u64 copy_deep_page(__u64 first, __u64 at, __u64 from)
{
	const struct large_frames *table = find_large_frames();
	struct syscall_event *event = deep_event();
	const struct stack_page *copy;
	struct event_stacks *stacks;
	bool over;

	if (!event || !table)
		return PAGE_IS_LAST;
	stacks = (void *)(event + 1);
	copy = copy_page(stacks, first, at, DEEP_STACK, &over);
	if (over)
		return PAGE_IS_LAST;
	if (!copy || !table->frame_count)
		return PAGE_IS_FOLLOWED;
	return large_frame_end(copy, at, from, stacks->stack_end) ?: PAGE_IS_FOLLOWED;
}

/* Copies the stack from @sp on without what lies within large frames. */
static __always_inline void copy_deep_stack(__u64 sp)
{
	__u64 first = sp & ~(STACK_PAGE - 1ull), at = first, from = sp;

	for (int i = 0; i < STACK_PAGES_SEARCHED; i++) {
		__u64 end = copy_deep_page(first, at, from);

		if (end == PAGE_IS_LAST)
			break;
		at += STACK_PAGE;
		if (end != PAGE_IS_FOLLOWED) {
			from = end - sizeof(__u64);
			at = (end - SAVED_REGISTERS) & ~(STACK_PAGE - 1ull);
		}
	}
}

static __always_inline bool report_deep(void *ctx, struct pt_regs *regs, struct thread *thread,
					__s64 value, const struct timestamp *timestamp, __u64 sp,
					__u64 end)
{
	volatile struct event_stacks *stacks;
	struct syscall_event *event = deep_event();
	__u32 bytes;

	if (!event)
		return false;
	fill_event(event, thread, value, timestamp);
	event->stack_mode = options.stack_mode;
	stacks = (void *)(event + 1);
	take_stacks(ctx, regs, (void *)stacks, end);
	if (options.stack_mode == STACK_COPY) {
		begin_copy(stacks);
		copy_deep_stack(sp);
	}
	bytes = stacks->user_bytes;
	if (bytes > DEEP_STACK)
		bytes = DEEP_STACK;
	return !bpf_ringbuf_output(&events, event, EVENT_WITH_STACKS(bytes), SUBMIT_FLAGS);
}

static __always_inline bool report_with_stacks(void *ctx, struct pt_regs *regs,
					       struct thread *thread, __s64 value,
					       const struct timestamp *timestamp)
{
	__u64 sp = 0, end;

	/* The last half is for events without. */
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > options.event_bytes / 2)
		return false;
	bpf_probe_read_kernel(&sp, sizeof(sp), (__u64 *)regs + STACK_POINTER);
	end = stack_end(bpf_get_current_task_btf(), sp);
	if (options.stack_mode != STACK_COPY || end - (sp & ~(STACK_PAGE - 1ull)) <= SHALLOW_STACK)
		return report_shallow(ctx, regs, thread, value, timestamp, sp, end);
	return report_deep(ctx, regs, thread, value, timestamp, sp, end);
}

/* Reports the call that @thread now leaves. */
static __always_inline void report_syscall(void *ctx, struct pt_regs *regs, struct thread *thread,
					   __s64 value, const struct timestamp *timestamp)
{
	struct syscall_event *event;

	if (options.stack_mode != STACK_NONE &&
	    report_with_stacks(ctx, regs, thread, value, timestamp))
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_up(&control.missed_syscall_events);
		return;
	}
	if (options.stack_mode != STACK_NONE)
		count_up(&control.missed_stacks);
	fill_event(event, thread, value, timestamp);
	event->stack_mode = STACK_NONE;
	bpf_ringbuf_submit(event, SUBMIT_FLAGS);
}

#endif
