/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * System calls: how often each is made, how long it takes, and how long a
 * thread works between two polls.
 */
#ifndef KERNEL_DELAY_SYSCALL_H
#define KERNEL_DELAY_SYSCALL_H

#include "event.h"
#include "owner.h"
#include "round.h"
#include "state.h"
#include "unseen.h"
#include "waited_for.h"

/* A call that crosses a boundary of the window has no count, but its time is accounted for. */
static __always_inline void end_call_at_boundary(struct thread *thread,
						 const struct timestamp *timestamp)
{
	__u64 length_ns = clip(timestamp, thread->mode_since_ns);
	struct syscall_record *syscall;

	if (!options.accounting || !length_ns)
		return;
	syscall = find_syscall_record(thread, thread->syscall);
	if (syscall)
		syscall->boundary_ns += length_ns;
}

/* @thread left a call, or a fault, without being seen. Not static, as take_record(). */
__noinline int note_unseen_return(struct thread *thread, struct thread_record *record,
				  const struct timestamp *timestamp)
{
	if (!thread || !timestamp || !control.epoch)
		return 0;
	count_up(&control.missed_calls);
	charge_unknown_mode(thread, record, timestamp);
	if (record && thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_boundary(thread, timestamp);
	return 0;
}

/* Was @thread in its program, as what it does now shows? */
static __always_inline void check_mode(struct thread *thread, struct thread_record *record,
				       const struct timestamp *timestamp)
{
	if (options.accounting && thread->mode != MODE_USER)
		note_unseen_return(thread, record, timestamp);
}

/*
 * Was @task, which is to be in that call, not seen to return from it? Then it came into the kernel
 * last for something else. sigreturn(2) has no number left at its end: arch/x86/kernel/signal_64.c,
 * arch/arm64/kernel/signal.c.
 */
static __always_inline bool has_returned(struct task_struct *task, __u64 syscall)
{
	if (!HAS_TASK_PT_REGS)
		return false;
	return syscall_number((struct pt_regs___syscall *)bpf_task_pt_regs(task)) < 0 &&
	       !(syscall_flags(syscall) & SYSCALL_ENDS_HANDLER);
}

/*
 * @thread, the current one, leaves its CPU and could go on: in its call, or was its return missed?
 * Not static, as take_record().
 */
__noinline int end_unseen_call(struct thread *thread, struct thread_record *record,
			       const struct timestamp *timestamp)
{
	if (!thread || !timestamp || thread->mode != MODE_SYSCALL ||
	    !has_returned(bpf_get_current_task_btf(), thread->syscall))
		return 0;
	if (options.accounting)
		note_unseen_return(thread, record, timestamp);
	change_mode(thread, record, MODE_USER, true, timestamp);
	thread->syscall = NO_SYSCALL;
	return 0;
}

/* @thread enters a poll. Not static, as take_record(). */
__noinline int count_long_poll(const struct thread *thread, struct thread_record *record,
			       const struct timestamp *timestamp)
{
	if (thread && record && timestamp && is_within(timestamp, thread->poll_return_ns))
		count_interval(&record->long_poll, timestamp, thread->poll_return_ns);
	return 0;
}

static __always_inline void enter_syscall(struct thread *thread, __u64 syscall,
					  struct pt_regs *regs, const struct timestamp *timestamp)
{
	struct thread_record *record = NULL;
	__u8 flags = syscall_flags(syscall);

	if (thread->mode == MODE_UNKNOWN)
		thread->mode = MODE_USER;
	check_running(thread, timestamp);
	if (options.accounting && flags & SYSCALL_IS_FUTEX)
		note_lock(thread, syscall, lock_of(syscall, regs));
	if (options.accounting || flags & SYSCALL_IS_POLL)
		record = find_or_make_record(thread, timestamp);
	check_mode(thread, record, timestamp);
	if (flags & SYSCALL_IS_POLL) {
		count_long_poll(thread, record, timestamp);
		note_polled_file(thread, flags, regs);
	}
	thread->off_cpu_ns = 0;
	if (reports_events()) {
		thread->call_sleep_ns = 0;
		thread->call_sleep_stack = 0;
	}
	enter_mode(thread, record, MODE_SYSCALL, timestamp);
	end_round_by_call(thread, flags, regs, timestamp);
	thread->syscall = syscall;
	thread->syscall_since_ns = timestamp->now_ns;
}

/* include/uapi/asm-generic/errno.h, as on x86 and arm64. */
#define ETIMEDOUT 110

/* Did a call with these flags that returns @value end by its time-out? 1 or 0, without a branch. */
static __always_inline __u64 is_timed_out(__u8 flags, long value)
{
	return (flags / SYSCALL_IS_POLL & mask_if_same(value, 0) & 1) |
	       (mask_if_same(value, -ETIMEDOUT) & 1);
}

/* @thread's call, which crosses a boundary of the window, is over. Not static, as take_record(). */
__noinline int end_call_across(struct thread *thread, __u64 timed_out,
			       const struct timestamp *timestamp)
{
	struct syscall_record *syscall;

	if (!thread || !timestamp)
		return 0;
	end_call_at_boundary(thread, timestamp);
	if (!options.accounting || !is_within(timestamp, timestamp->now_ns))
		return 0;
	syscall = find_syscall_record(thread, thread->syscall);
	if (!syscall)
		return 0;
	syscall->across++;
	syscall->timed_out += timed_out;
	return 0;
}

static __always_inline void end_call(struct thread *thread, __u8 flags, long value,
				     const struct timestamp *timestamp)
{
	struct syscall_record *syscall;

	if (!is_within(timestamp, thread->syscall_since_ns)) {
		end_call_across(thread, is_timed_out(flags, value), timestamp);
		return;
	}
	syscall = find_syscall_record(thread, thread->syscall);
	if (!syscall)
		return;
	count_interval(&syscall->calls, timestamp, thread->syscall_since_ns);
	count_length(&syscall->lengths, timestamp, thread->syscall_since_ns);
	syscall->timed_out += is_timed_out(flags, value);
}

/*
 * @thread leaves a call that it never entered: a seccomp filter, or a tracer,
 * denied it in the entry work, of which the tracepoint is the last part
 * (kernel/entry/common.c:syscall_trace_enter(), 5.14 to 6.18). When that
 * began is not known. Without either of the two its entry was missed, as it
 * may have been with them; then what it ran since it came out of the call
 * before is not its program's alone. Not static, as take_record().
 */
__noinline int count_without_entry(struct thread *thread, struct thread_record *record,
				   __u64 denied, const struct timestamp *timestamp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct syscall_record *syscall;
	__u32 may_be_denied;

	if (!thread || !record || !timestamp)
		return 0;
	may_be_denied = task->ptrace;
	if (bpf_core_field_exists(task->seccomp.mode))
		may_be_denied |= task->seccomp.mode;
	if (!may_be_denied) {
		count_up(&control.missed_calls);
		charge_unknown_mode(thread, record, timestamp);
		enter_mode(thread, record, MODE_USER, timestamp);
		return 0;
	}
	if (!is_within(timestamp, timestamp->now_ns))
		return 0;
	syscall = find_syscall_record(thread, denied);
	if (syscall)
		syscall->without_entry++;
	return 0;
}

/*
 * A thread may be in a syscall that it entered before the programs were
 * attached, and a new one leaves the clone(2) that its parent entered: it is
 * known since when that is so, but there is no call to count. Which call it was
 * stays with the thread until that is reported.
 */
static __always_inline void leave_syscall(struct thread *thread, struct task_struct *task,
					  struct pt_regs *regs, long value,
					  const struct timestamp *timestamp)
{
	struct thread_record *record;
	__u8 flags;

	check_running(thread, timestamp);
	if (thread->mode == MODE_UNKNOWN) {
		settle_mode(task, &thread->mode, &thread->syscall);
		thread->mode = MODE_SYSCALL;
	}
	record = find_or_make_record(thread, timestamp);
	if (thread->mode == MODE_USER) {
		count_without_entry(
			thread, record,
			syscall_id(task, syscall_number((struct pt_regs___syscall *)regs)),
			timestamp);
		return;
	}
	if (options.totals)
		add_call_total(thread, timestamp);
	flags = syscall_flags(thread->syscall);
	if (record && thread->syscall != NO_SYSCALL)
		end_call(thread, flags, value, timestamp);
	if (flags & SYSCALL_IS_POLL)
		thread->poll_return_ns = timestamp->now_ns;
	enter_mode(thread, record, MODE_USER, timestamp);
	begin_round_by_call(thread, flags, value, timestamp);
}

static __always_inline void note_entry(struct thread *thread, struct task_struct *task,
				       struct pt_regs *regs, long number)
{
	__u64 syscall = syscall_id(task, number);
	struct timestamp timestamp;

	if (options.rounds && thread->mode == MODE_SYSCALL)
		begin_round_of_missed_return(thread);
	take_timestamp_at(&timestamp, entry_ns(thread, syscall_flags(syscall), regs));
	see_round(&timestamp, thread);
	enter_syscall(thread, syscall, regs, &timestamp);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (thread)
		note_entry(thread, task, regs, number);
	return 0;
}

/*
 * A program that can be preempted (from 7.0 on, loader/features.py) is not run for any other
 * thread on that CPU until its own is back: its count of who is in it is per
 * CPU, and lets in one (kernel/trace/bpf_trace.c:__bpf_trace_run(), 7.2). So
 * it has a fallback, attached behind it to the same tracepoint, with a count
 * of its own. Both are run by the thread itself, one after the other: the
 * program leaves a note which end of a call it saw, and the fallback, which
 * finds none of this end, was left alone and does the program's work.
 *
 * A note that a fallback did not come to read does no harm, as the next is of
 * the other end.
 */

enum boundary { BOUNDARY_NONE, BOUNDARY_ENTRY, BOUNDARY_EXIT };

/* The thread of @task if its @boundary is the fallback's to note, and else NULL. */
static __always_inline struct thread *take_over(struct task_struct *task, enum boundary boundary)
{
	/* Who was not registered is the program's to count. */
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	__u32 noted;

	if (!thread)
		return NULL;
	noted = thread->boundary;
	thread->boundary = BOUNDARY_NONE;
	return noted == boundary ? NULL : thread;
}

/* In its place where it could be preempted, as others of that name, and with a fallback. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(on_sys_enter_preemptible, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	stay_on_cpu();
	thread = find_thread(task);
	if (thread) {
		note_entry(thread, task, regs, number);
		thread->boundary = BOUNDARY_ENTRY;
	}
	end_stay_on_cpu();
	return 0;
}

SEC("?tp_btf/sys_enter")
int BPF_PROG(on_sys_enter_fallback, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = take_over(task, BOUNDARY_ENTRY);
	if (!thread)
		return 0;
	stay_on_cpu();
	note_entry(thread, task, regs, number);
	count_up(&control.entries_taken_over);
	end_stay_on_cpu();
	return 0;
}

static __always_inline void note_exit(struct thread *thread, struct task_struct *task,
				      struct pt_regs *regs, long value)
{
	struct timestamp timestamp;

	take_timestamp(&timestamp);
	see_round(&timestamp, thread);
	leave_syscall(thread, task, regs, value, &timestamp);
	if (is_reported(thread, &timestamp)) {
		/* It is a pointer, and in memory a number. */
		*(volatile __u64 *)&thread->regs = (__u64)regs;
		report_syscall(thread, value, &timestamp);
	}
	thread->syscall = NO_SYSCALL;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (thread)
		note_exit(thread, task, regs, value);
	return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(on_sys_exit_preemptible, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	stay_on_cpu();
	thread = find_thread(task);
	if (thread) {
		note_exit(thread, task, regs, value);
		thread->boundary = BOUNDARY_EXIT;
	}
	end_stay_on_cpu();
	return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(on_sys_exit_fallback, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = take_over(task, BOUNDARY_EXIT);
	if (!thread)
		return 0;
	stay_on_cpu();
	note_exit(thread, task, regs, value);
	count_up(&control.exits_taken_over);
	end_stay_on_cpu();
	return 0;
}

#endif
