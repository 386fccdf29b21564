/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Rounds where of all system calls polls alone are hooked: with options.polls_only.
 *
 * In a call a thread is known to be while it sleeps there. What it runs is charged to its
 * program; samples, which are taken once its round is old, show what of it was in calls.
 *
 * While a round is old returns of calls are hooked too, for those that slept: they are events.
 *
 * The return of a poll is not hooked. One that need not wait is over at once: its round begins as
 * it is entered. In one that waits the thread leaves its CPU: then that was no round, and one
 * begins each time that it is back.
 */
#ifndef KERNEL_DELAY_POLLS_H
#define KERNEL_DELAY_POLLS_H

#include "state.h"
#include "syscall.h"
#include "unseen.h"

/* @thread ran until now. */
static __always_inline void charge_run(struct thread *thread, struct thread_record *record,
				       const struct timestamp *timestamp)
{
	thread->unsplit_ns += clip(timestamp, thread->mode_since_ns);
	change_mode(thread, record, MODE_USER, false, timestamp);
}

/* @thread, which was off its CPU in a call, is in its program, as far as is known. */
static __always_inline void leave_call(struct thread *thread, struct thread_record *record,
				       const struct timestamp *timestamp)
{
	if (record && thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_boundary(thread, timestamp);
	change_mode(thread, record, MODE_USER, false, timestamp);
}

/* @thread runs; if a switch was missed it was in a call until now. */
static __always_inline void charge_until_now(struct thread *thread,
					     const struct timestamp *timestamp)
{
	struct thread_record *record;

	check_running(thread, timestamp);
	record = find_or_make_record(thread, timestamp);
	if (thread->mode == MODE_SYSCALL)
		leave_call(thread, record, timestamp);
	else
		charge_run(thread, record, timestamp);
	thread->syscall = NO_SYSCALL;
}

/*
 * @thread, which is the next on a CPU, left its last one in a call, if that is its mode. Returns
 * whether a round begins. Not static, as take_record().
 */
__noinline bool leave_seen_call(struct thread *thread, struct thread_record *record,
				const struct timestamp *timestamp)
{
	__u8 flags;

	if (!options.polls_only || !thread || !timestamp)
		return false;
	leave_call(thread, record, timestamp);
	flags = syscall_flags(thread->syscall);
	thread->syscall = NO_SYSCALL;
	if (!leaves_poll(thread, flags))
		return false;
	begin_round(thread, timestamp, false);
	thread->poll_return_ns = timestamp->now_ns;
	return true;
}

/* The round of @thread, which is @task, begins. Does a signal end its poll, or a stop? */
static __always_inline void note_retry(struct thread *thread, struct task_struct *task)
{
	__u64 reasons = has_signal(task) | (task->jobctl & JOBCTL_PENDING) |
			(task->__state & (__TASK_STOPPED | __TASK_TRACED));

	thread->round_is_retry = ~mask_if_same(reasons, 0) & 1;
	thread->retry_ran_ns = counted_ns_of(task);
}

/*
 * @thread, the current one, runs, and was seen to wait in its poll last: the switch that its round
 * began with was missed. It begins as the thread got its CPU. Not static, as take_record().
 */
__noinline int begin_unseen_round(struct thread *thread, __u64 now_ns)
{
	struct timestamp timestamp = {};

	if (!options.polls_only || !thread || !thread->polls)
		return 0;
	timestamp.now_ns = arrival_ns(thread, now_ns);
	see_round(&timestamp, thread);
	check_run(thread, &timestamp);
	/* Nothing of this is in the round before, which is over. */
	if (leave_seen_call(thread, NULL, &timestamp)) {
		note_own_times(&thread->round_times, thread);
		note_retry(thread, bpf_get_current_task_btf());
	}
	return 0;
}

/* The round of @thread, which was not off its CPU in a call, ends: nobody asks for its record. */
static __always_inline bool ends_short_round(const struct thread *thread,
					     const struct timestamp *timestamp)
{
	return timestamp->stop_ns == NEVER_NS &&
	       length_since(timestamp->now_ns, timestamp->start_ns) < options.round_ns &&
	       thread->state == STATE_RUNNING && thread->mode == MODE_USER;
}

/* @thread, the current one, enters a poll. Not static, as take_record(). */
__noinline int pass_poll(struct thread *thread, __u8 flags)
{
	struct timestamp timestamp = {};

	if (!options.polls_only || !thread)
		return 0;
	timestamp.now_ns = round_end_ns(thread);
	see_round(&timestamp, thread);
	if (ends_short_round(thread, &timestamp)) {
		thread->mode_since_ns = timestamp.now_ns;
	} else {
		charge_until_now(thread, &timestamp);
		count_long_poll(thread, find_made_record(thread, &timestamp), &timestamp);
	}
	thread->polls = 0;
	thread->polls_again = 0;
	thread->loops_otherwise = !(flags & SYSCALL_POLLS_ARRAY);
	end_round(thread, &timestamp, ROUND_IS_LONG, options.round_ns);
	begin_own_round(thread, &timestamp, false);
	thread->poll_return_ns = timestamp.now_ns;
	return 0;
}

static __always_inline void hook_poll(struct task_struct *task, struct pt_regs *regs, long number)
{
	__u8 flags = syscall_flags(syscall_id(task, number));
	struct thread *thread;

	if (!(flags & (SYSCALL_IS_POLL | SYSCALL_MAY_POLL)))
		return;
	thread = find_thread(task);
	if (!thread || !has_rounds_by_poll(thread) || !is_poll(thread, flags, regs))
		return;
	/* A sample that comes meanwhile charges nothing. */
	*(volatile __u8 *)&thread->is_in_hook = 1;
	if (thread->mode == MODE_SYSCALL)
		begin_unseen_round(thread, bpf_ktime_get_ns());
	pass_poll(thread, flags);
	*(volatile __u8 *)&thread->is_in_hook = 0;
}

/* Where the kernel takes no program at its functions. */
SEC("?tp_btf/sys_enter")
int BPF_PROG(on_sys_enter_poll, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		hook_poll(task, regs, number);
	return 0;
}

/* In its place where it could be preempted, as on_sys_enter_preemptible(). */
SEC("?tp_btf/sys_enter")
int BPF_PROG(on_sys_enter_poll_preemptible, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_target(task))
		return 0;
	stay_on_cpu();
	hook_poll(task, regs, number);
	end_stay_on_cpu();
	return 0;
}

/* At the functions of polls: user space knows which these are. */
SEC("?kprobe.multi")
int on_sys_poll(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;

	if (!HAS_TASK_PT_REGS || !is_target(task))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	hook_poll(task, regs, syscall_number((struct pt_regs___syscall *)regs));
	return 0;
}

/*
 * Is @thread, which runs, in the call still that it was seen in? No return was seen, and that was
 * hooked by then, or while it slept in the call.
 */
static __always_inline bool is_in_seen_call(const struct thread *thread)
{
	__u64 hooked_ns = *(volatile __u64 *)&control.returns_hooked_ns;

	return hooked_ns && thread->syscall_since_ns &&
	       (thread->syscall_since_ns >= hooked_ns || thread->since_ns >= hooked_ns);
}

/* @thread, the current one, leaves a call. If it slept long in that, it is an event. */
static __always_inline void note_return(struct thread *thread, struct task_struct *task,
					struct pt_regs *regs, long value)
{
	struct timestamp timestamp;

	if (is_in_seen_call(thread)) {
		take_timestamp(&timestamp);
		see_round(&timestamp, thread);
		thread->syscall =
			syscall_id(task, syscall_number((struct pt_regs___syscall *)regs));
		if (is_reported(thread, &timestamp)) {
			*(volatile __u64 *)&thread->regs = (__u64)regs;
			report_syscall(thread, value, &timestamp);
		}
		thread->syscall = NO_SYSCALL;
	}
	thread->syscall_since_ns = 0;
}

static __always_inline void hook_return(struct task_struct *task, struct pt_regs *regs, long value)
{
	struct thread *thread = find_thread(task);

	if (!thread || !thread->syscall_since_ns || thread->state != STATE_RUNNING)
		return;
	*(volatile __u8 *)&thread->is_in_hook = 1;
	note_return(thread, task, regs, value);
	*(volatile __u8 *)&thread->is_in_hook = 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(on_sys_exit_late, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		hook_return(task, regs, value);
	return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(on_sys_exit_late_preemptible, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_target(task))
		return 0;
	stay_on_cpu();
	hook_return(task, regs, value);
	end_stay_on_cpu();
	return 0;
}

/* @thread is in a call that it was not seen in before. */
static __always_inline void begin_seen_call(struct thread *thread, __u64 now_ns)
{
	thread->syscall_since_ns = now_ns;
	thread->off_cpu_ns = 0;
	thread->call_sleep_ns = 0;
	thread->call_sleep_stack = 0;
}

/*
 * Does @task, which leaves its CPU with the number of a call, sleep in that? If it is preempted or
 * stopped it may be on its way in or out as well: before its entry is seen, or behind its return.
 */
static __always_inline bool sleeps_in_call(const struct task_struct *task, bool preempt)
{
	return !preempt && task->__state & (TASK_NORMAL | TASK_DEAD) &&
	       !(task->__state & (__TASK_STOPPED | __TASK_TRACED));
}

/* Does @thread, which leaves its CPU in a call, wait in its poll? */
static __always_inline bool waits_in_poll(const struct thread *thread, __u8 flags,
					  struct pt_regs *regs)
{
	if (!has_rounds_by_poll(thread))
		return false;
	return is_poll(thread, flags, regs) || (flags & SYSCALL_RESTARTS && thread->polls_again);
}

/*
 * @thread is about to sleep in its poll. A round that began as it was entered was none. A longer
 * one ends now: its end was not seen, as what supervises the thread has it sleep before its calls.
 */
static __always_inline void wait_in_poll(struct thread *thread, const struct timestamp *timestamp)
{
	if (thread->round_stop_ns != NEVER_NS)
		return;
	if (length_since(timestamp->now_ns, thread->round_start_ns) < SHORTEST_WORK_NS)
		thread->round_stop_ns = timestamp->now_ns;
	else
		end_round(thread, timestamp, ROUND_IS_LONG, options.round_ns);
}

/*
 * @thread, the current one, is about to leave its CPU: notes in which call. Not static, as
 * take_record().
 */
__noinline int see_call(struct thread *thread, struct timestamp *timestamp, bool preempt)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs;
	__u64 syscall;
	long number;
	__u8 flags;

	if (!options.polls_only || !HAS_TASK_PT_REGS || !thread || !timestamp)
		return 0;
	see_round(timestamp, thread);
	charge_until_now(thread, timestamp);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	number = syscall_number((struct pt_regs___syscall *)regs);
	if (number < 0 || thread->kernel_worker || !sleeps_in_call(task, preempt))
		return 0;
	syscall = syscall_id(task, number);
	flags = syscall_flags(syscall);
	if (!is_in_seen_call(thread))
		begin_seen_call(thread, timestamp->now_ns);
	thread->mode = MODE_SYSCALL;
	thread->syscall = syscall;
	thread->polls = waits_in_poll(thread, flags, regs);
	thread->polls_again = thread->polls;
	if (thread->polls)
		wait_in_poll(thread, timestamp);
	else if (!(flags & (SYSCALL_RESTARTS | SYSCALL_IS_FUTEX | SYSCALL_ENDS_HANDLER)))
		thread->round_is_retry = 0;
	note_polled_file(thread, flags, regs);
	if (flags & SYSCALL_IS_FUTEX)
		note_lock(thread, syscall, lock_of(syscall, regs));
	return 0;
}

/* A sample is of so much of a run at most: the time between two, and half of it. */
#define SAMPLE_NS 1500000

/* How many samples have one stack. */
#define SAMPLES_OF_STACK 5

/* Is @thread, the current one, amid what charges its time? */
static __always_inline bool is_being_charged(struct thread *thread)
{
	struct soft_irq *soft_irq = soft_irq_of(thread);

	return thread->is_in_hook || thread->is_renewed || thread->state != STATE_RUNNING ||
	       thread->mode != MODE_USER ||
	       (soft_irq && soft_irq->since_ns && soft_irq->task == thread->task);
}

/*
 * A sample shows whether @thread, the current one, is in a call: so it was for what it ran since
 * the sample before. Not static, as take_record().
 */
__noinline int split_run(struct thread *thread, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct timestamp timestamp = {.now_ns = now_ns};
	struct syscall_record *syscall;
	struct thread_record *record;
	__s64 length_ns;
	long number;

	if (!options.polls_only || !HAS_TASK_PT_REGS || !thread || is_being_charged(thread))
		return 0;
	/* The interrupt that it came by is none of the thread's time. */
	if (thread->hard_irq_since_ns)
		timestamp.now_ns = thread->hard_irq_since_ns;
	use_round(&timestamp, thread);
	record = find_or_make_record(thread, &timestamp);
	if (!record)
		return 0;
	charge_run(thread, record, &timestamp);
	length_ns = thread->unsplit_ns;
	if (length_ns <= 0)
		return 0;
	if (length_ns > SAMPLE_NS)
		length_ns = SAMPLE_NS;
	__sync_fetch_and_add(&thread->unsplit_ns, -length_ns);
	number = syscall_number((struct pt_regs___syscall *)bpf_task_pt_regs(task));
	if (number < 0)
		return 0;
	syscall = find_syscall_record(thread, syscall_id(task, number));
	if (!syscall)
		return 0;
	syscall->boundary_ns += length_ns;
	record->account.mode_ns[MODE_USER] -= length_ns;
	record->account.mode_ns[MODE_SYSCALL] += length_ns;
	return 0;
}

#endif
