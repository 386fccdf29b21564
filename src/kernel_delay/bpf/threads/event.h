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

#include "../unwind/walk.h"
#include "accounting.h"
#include "sleep_stack.h"
#include "stack.h"
#include "thread_record.h"

#if defined(__TARGET_ARCH_x86)
#define REGISTERS_SAVED 21
#define INSTRUCTION_POINTER 16
#define STACK_POINTER 19
#define THREAD_POINTER thread.fsbase
#elif defined(__TARGET_ARCH_arm64)
#define REGISTERS_SAVED 33
#define INSTRUCTION_POINTER 32
#define STACK_POINTER 31
#define THREAD_POINTER thread.uw.tp_value
#endif

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

/* @regs are the current thread's, of its program. */
static __always_inline void take_registers(struct event_stacks *stacks, __u64 regs, __u64 end)
{
	bpf_probe_read_kernel(stacks->registers, REGISTERS_SAVED * sizeof(__u64), (void *)regs);
	stacks->stack_end = end;
	stacks->pages[0] = 0;
}

static __always_inline __u64 stack_pointer(__u64 regs)
{
	__u64 sp = 0;

	bpf_probe_read_kernel(&sp, sizeof(sp), (__u64 *)regs + STACK_POINTER);
	return sp;
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

static __always_inline struct syscall_event *scratch_event(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&scratch_events, &cpu);
}

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

enum page_end { PAGE_IS_LAST, PAGE_IS_FOLLOWED }; /* or else where the large frame on it ends */

/*
 * Copies one page of a deep stack, and says how to go on. Not static, as the functions
 * of stack.h: in its caller's loop it would be verified with each page.
 */
__noinline __u64 copy_deep_page(__u64 first, __u64 at, __u64 from)
{
	const struct large_frames *table = find_large_frames();
	struct syscall_event *event = scratch_event();
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
	return large_frame_end(copy, at, from, stacks->stack_end) ?: PAGE_IS_FOLLOWED;
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

/* What interrupts have of the time of @thread in its program. Not static, as take_record(). */
__noinline __u64 interrupted_ns(struct thread *thread, const struct timestamp *timestamp)
{
	const struct thread_record *record;

	if (!reports_events() || !thread || !timestamp)
		return 0;
	record = find_record(thread, timestamp);
	if (!record)
		return 0;
	return record->account.hard_irq_ns[MODE_USER] + record->account.soft_irq_ns[MODE_USER];
}

/* Charges the tool with what is from @since_ns until now, without @interrupts_ns. As above. */
__noinline int charge_tool(struct thread *thread, const struct timestamp *timestamp, __u64 since_ns,
			   __u64 interrupts_ns)
{
	struct thread_record *record;
	__u64 length_ns;

	if (!reports_events() || !thread || !timestamp)
		return 0;
	record = find_record(thread, timestamp);
	length_ns = clip(timestamp, since_ns);
	if (record && length_ns > interrupts_ns)
		record->account.tool_ns += length_ns - interrupts_ns;
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

#endif
