/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Single syscalls as events, with the stacks that they were made from; and samples of what a
 * thread runs.
 *
 * Most programs have no frame pointers, so the user stack is copied, with the
 * registers, for user space to unwind. When room gets scarce stacks are given
 * up first, and events then; what is counted in tables never is.
 */
#ifndef KERNEL_DELAY_EVENT_H
#define KERNEL_DELAY_EVENT_H

#include "accounting.h"
#include "deep_stack.h"
#include "thread_record.h"
#include "walk.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

#define EVENT_WITH_STACKS(bytes)                                                                   \
	(sizeof(struct syscall_event) + sizeof(struct event_stacks) + (bytes))

/* A stack whose frames are found by their pointers. */
struct walked_event {
	struct syscall_event event;
	struct event_stacks stacks;
	__u64 user[USER_FRAMES];
};

static __always_inline bool is_event(__u64 syscall, __u64 length_ns)
{
	if (length_ns < options.event_ns)
		return false;
	if (!is_flagged(syscall))
		return options.other_events;
	return syscall_flags(syscall) & SYSCALL_HAS_EVENTS;
}

/*
 * Of the kernel's stack an event has where its call slept longest: where it returns to its program
 * is the same in each. Not static, as take_record().
 */
__noinline int take_sleep_stack(struct event_stacks *stacks, __u32 number)
{
	__u32 slot = number - 1;
	struct sleep_stack *kept;

	if (!reports_events() || !stacks)
		return 0;
	kept = bpf_map_lookup_elem(&sleep_stacks, &slot);
	if (!kept || !kept->written)
		return 0;
	__builtin_memcpy(stacks->kernel, kept->frames, sizeof(kept->frames));
	stacks->kernel_frames = SLEEP_FRAMES;
	return 0;
}

/* The call that @thread now leaves, in full but for its stacks. Not static, as take_record(). */
__noinline int fill_event(struct syscall_event *event, const struct thread *thread, __s64 value,
			  const struct timestamp *timestamp)
{
	if (!event || !thread || !timestamp)
		return 0;
	event->entry_ns = thread->syscall_since_ns;
	event->exit_ns = timestamp->now_ns;
	event->off_cpu_ns = options.accounting && thread->state == STATE_RUNNING
				    ? thread->off_cpu_ns
				    : OFF_CPU_UNKNOWN;
	event->value = value;
	event->syscall = thread->syscall;
	event->tid = thread->tid;
	event->stack_mode = options.stack_mode;
	return 0;
}

/* User space looks often enough by itself: waking it would cost more than an event. */
#define SUBMIT_FLAGS BPF_RB_NO_WAKEUP

/* All of an event with stacks but the user's. */
static __always_inline void begin_event(struct syscall_event *event, struct event_stacks *stacks,
					const struct thread *thread, __s64 value,
					const struct timestamp *timestamp)
{
	fill_event(event, thread, value, timestamp);
	stacks->kernel_frames = 0;
	if (thread->call_sleep_stack)
		take_sleep_stack(stacks, thread->call_sleep_stack);
}

/* Not static, as take_record(); so are those below. */
__noinline bool report_walked(const struct thread *thread, __s64 value,
			      const struct timestamp *timestamp)
{
	struct walked_event *event;
	__u64 *instruction;
	long bytes;

	if (!reports_events() || options.stack_mode != STACK_FRAME_POINTERS || !thread ||
	    !timestamp)
		return false;
	event = (void *)scratch_event();
	if (!event)
		return false;
	begin_event(&event->event, &event->stacks, thread, value, timestamp);
	/* Where not even one frame is found that is known. */
	instruction = &event->stacks.registers[INSTRUCTION_POINTER];
	bpf_probe_read_kernel(instruction, sizeof(*instruction),
			      (__u64 *)thread->regs + INSTRUCTION_POINTER);
	bytes = bpf_get_task_stack(bpf_get_current_task_btf(), event->user, sizeof(event->user),
				   BPF_F_USER_STACK);
	if (bytes < 0 || bytes > (long)sizeof(event->user))
		bytes = 0;
	event->stacks.user_bytes = bytes;
	return !bpf_ringbuf_output(&events, event, EVENT_WITH_STACKS(bytes), SUBMIT_FLAGS);
}

/*
 * Most stacks are shallow, and are copied to where they are read from. So much room is taken as
 * they need.
 */
#define REPORT_PAGES(count)                                                                        \
	struct event_of_##count##_pages {                                                          \
		struct syscall_event event;                                                        \
		struct event_stacks stacks;                                                        \
		__u8 content[(count)*STACK_PAGE];                                                  \
	};                                                                                         \
                                                                                                   \
	__noinline bool report_##count##_pages(const struct thread *thread, __s64 value,           \
					       const struct timestamp *timestamp, __u64 sp,        \
					       __u64 end)                                          \
	{                                                                                          \
		struct event_of_##count##_pages *event;                                            \
                                                                                                   \
		if (!copies_stacks() || !thread || !timestamp)                                     \
			return false;                                                              \
		event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);                           \
		if (!event)                                                                        \
			return false;                                                              \
		begin_event(&event->event, &event->stacks, thread, value, timestamp);              \
		take_registers(&event->stacks, thread->regs, end);                                 \
		copy_pages(&event->stacks, sp, count);                                             \
		bpf_ringbuf_submit(event, SUBMIT_FLAGS);                                           \
		return true;                                                                       \
	}

REPORT_PAGES(1)
REPORT_PAGES(2)
REPORT_PAGES(4)

static __always_inline bool report_deep(const struct thread *thread, __s64 value,
					const struct timestamp *timestamp, __u64 sp, __u64 end)
{
	struct syscall_event *event = scratch_event();
	volatile struct event_stacks *stacks;
	__u32 bytes;

	if (!event)
		return false;
	stacks = (void *)(event + 1);
	begin_event(event, (void *)stacks, thread, value, timestamp);
	take_registers((void *)stacks, thread->regs, end);
	begin_copy(stacks);
	copy_deep_stack(sp);
	bytes = stacks->user_bytes;
	if (bytes > DEEP_STACK)
		bytes = DEEP_STACK;
	return !bpf_ringbuf_output(&events, event, EVENT_WITH_STACKS(bytes), SUBMIT_FLAGS);
}

/* Walks the user's stack of the current task, whose registers are @regs; false: not to its end. */
static __always_inline bool walk_user(struct walked_stack *stack, __u64 regs, __u64 end)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct unwind_header *header;
	void *table = unwind_table();

	take_registers(&stack->stacks, regs, end);
	begin_walk(stack);
	header = table ? unwind_header(table) : NULL;
	/* After execve(2) it is another's. */
	if (!header || header->start_stack != task->mm->start_stack)
		return false;
	stack->walk.generation = header->generation;
	walk_stack(stack);
	return stack->walk.is_whole;
}

/* What became of a walk. */
enum walk_end { WALK_LOST, WALK_REPORTED, WALK_HAS_NO_ROOM };

/* Reports the call with the frames that a walk finds, unless it is lost and can be copied. */
__noinline int report_walk(const struct thread *thread, __s64 value,
			   const struct timestamp *timestamp, __u64 end)
{
	struct walked_stack *stack;
	__u32 frames;

	if (!walks_stacks() || !thread || !timestamp)
		return WALK_LOST;
	stack = walked_stack();
	if (!stack || (!walk_user(stack, thread->regs, end) && options.stack_mode == STACK_COPY))
		return WALK_LOST;
	frames = stack->walk.frames;
	if (frames > WALKED_FRAMES)
		return WALK_LOST;
	begin_event(&stack->event, &stack->stacks, thread, value, timestamp);
	stack->event.stack_mode = STACK_WALK;
	stack->user[frames] = NO_FRAME;
	if (!stack->walk.is_whole)
		frames++;
	stack->stacks.user_bytes = frames * sizeof(__u64);
	if (bpf_ringbuf_output(&events, &stack->event, EVENT_WITH_STACKS(frames * sizeof(__u64)),
			       SUBMIT_FLAGS))
		return WALK_HAS_NO_ROOM;
	return WALK_REPORTED;
}

static __always_inline bool report_with_stacks(const struct thread *thread, __s64 value,
					       const struct timestamp *timestamp)
{
	__u64 sp, end, bytes;
	int walked;

	/* The last half is for events without. */
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > options.event_bytes / 2)
		return false;
	if (options.stack_mode == STACK_FRAME_POINTERS)
		return report_walked(thread, value, timestamp);
	sp = stack_pointer(thread->regs);
	end = stack_end(bpf_get_current_task_btf(), sp);
	if (walks_stacks()) {
		walked = report_walk(thread, value, timestamp, end);
		if (walked != WALK_LOST || options.stack_mode == STACK_WALK)
			return walked == WALK_REPORTED;
	}
	bytes = end - (sp & ~(STACK_PAGE - 1ull));
	if (bytes <= STACK_PAGE)
		return report_1_pages(thread, value, timestamp, sp, end);
	if (bytes <= 2 * STACK_PAGE)
		return report_2_pages(thread, value, timestamp, sp, end);
	if (bytes <= SHALLOW_STACK)
		return report_4_pages(thread, value, timestamp, sp, end);
	return report_deep(thread, value, timestamp, sp, end);
}

/* Reports the call that @thread now leaves, without stacks. Not static, as take_record(). */
__noinline int report_without_stacks(const struct thread *thread, __s64 value,
				     const struct timestamp *timestamp)
{
	struct syscall_event *event;

	if (!thread || !timestamp)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_up(&control.missed_syscall_events);
		return 0;
	}
	if (options.stack_mode != STACK_NONE)
		count_up(&control.missed_stacks);
	fill_event(event, thread, value, timestamp);
	event->stack_mode = STACK_NONE;
	bpf_ringbuf_submit(event, SUBMIT_FLAGS);
	return 0;
}

/*
 * Reports the call that @thread has left, as of @timestamp. What that takes is the tool's, and
 * charged as such to what the thread is in now: its program, and with rounds maybe another one.
 * What of it is behind the end of a window is the program's. Not static, as take_record().
 */
__noinline int report_syscall(struct thread *thread, __s64 value, const struct timestamp *timestamp)
{
	struct timestamp reported;
	__u64 before_ns = 0;

	if (!reports_events() || !thread || !timestamp)
		return 0;
	reported = *timestamp;
	see_round(&reported, thread);
	if (options.accounting)
		before_ns = interrupted_ns(thread, &reported);
	if (options.stack_mode == STACK_NONE || !report_with_stacks(thread, value, timestamp))
		report_without_stacks(thread, value, timestamp);
	if (!options.accounting)
		return 0;
	reported.now_ns = bpf_ktime_get_ns();
	charge_tool(thread, &reported, timestamp->now_ns,
		    interrupted_ns(thread, &reported) - before_ns);
	return 0;
}

/* Is the call that @thread leaves an event? */
static __always_inline bool is_reported(const struct thread *thread,
					const struct timestamp *timestamp)
{
	return reports_events() && thread->syscall != NO_SYSCALL &&
	       is_within(timestamp, thread->syscall_since_ns) &&
	       is_event(thread->syscall, length_since(timestamp->now_ns, thread->syscall_since_ns));
}

/*
 * What a thread runs while its round is long already: a sample now and then, with its stacks.
 * One is an event without a system call, which begins and ends at the same time.
 */

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
