/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The scheduler's side of a thread: when it leaves a CPU and why, and when it gets on one again.
 */
#ifndef KERNEL_DELAY_SWITCH_H
#define KERNEL_DELAY_SWITCH_H

#include "interrupt.h"
#include "owner.h"
#include "polls.h"
#include "sleep.h"
#include "state.h"
#include "syscall.h"
#include "unseen.h"

/*
 * @thread leaves its CPU for the last time, still in whatever it does. Not static, as
 * take_record().
 */
__noinline int end_thread(struct thread *thread, struct thread_record *record,
			  const struct timestamp *timestamp)
{
	if (!thread || !record || !timestamp)
		return 0;
	charge_mode(thread, record, timestamp);
	if (has_timeline())
		report_mode(thread, false, timestamp);
	if (thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_boundary(thread, timestamp);
	if (timestamp->now_ns < timestamp->stop_ns)
		record->exited = 1;
	/* Last, as from then on user space may use the record for another thread. */
	__sync_lock_test_and_set(&record->account.exit_ns, timestamp->now_ns);
	return 0;
}

/* What @prev, which leaves its CPU now, does from then on. */
static __always_inline enum scheduler_state state_after(struct task_struct *prev, bool preempt,
							const struct timestamp *timestamp)
{
	enum scheduler_state state = state_of(prev, preempt);

	if (options.freezer && state == STATE_FROZEN)
		note_freeze(prev, timestamp->now_ns);
	return state;
}

/* Begins the change of @thread, which leaves its CPU. */
static __always_inline void begin_switch_out(struct thread *thread, struct thread_record *record,
					     const struct timestamp *timestamp)
{
	begin_change(thread);
	if (has_timeline())
		report_state(thread, STATE_RUNNING, thread->since_ns, timestamp);
	if (record && is_within(timestamp, thread->run_since_ns)) {
		count_interval(&record->run, timestamp, thread->run_since_ns);
		count_length(&record->account.run, timestamp, thread->run_since_ns);
	}
	note_waits(thread, bpf_get_current_task_btf());
}

/*
 * @thread, which does not poll, is about to leave its CPU: until it is back is a round. One that
 * polls all the same has nothing else to do.
 */
static __always_inline void begin_off_cpu_round(struct thread *thread,
						const struct timestamp *timestamp)
{
	if (!options.off_cpu_round_ns || !thread->reports_off_cpu_rounds)
		return;
	if (thread->mode == MODE_SYSCALL && syscall_flags(thread->syscall) & SYSCALL_IS_POLL)
		return;
	begin_round(thread, timestamp, false);
}

/* @thread, which has a round off its CPU, is back. Not static, as take_record(). */
__noinline int end_off_cpu_round(struct thread *thread, struct thread_record *record,
				 const struct timestamp *timestamp)
{
	if (!options.off_cpu_round_ns || !thread || !timestamp || thread->round_stop_ns != NEVER_NS)
		return 0;
	if (record && thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_boundary(thread, timestamp);
	enter_mode(thread, record, thread->mode, timestamp);
	end_round(thread, timestamp, ROUND_IS_OFF_CPU, options.off_cpu_round_ns);
	return 0;
}

/* @thread, which is to run, ends. Not static, as take_record(). */
__noinline int end_life(struct thread *thread, struct thread_record *record,
			const struct timestamp *timestamp)
{
	if (!thread || !timestamp)
		return 0;
	end_thread(thread, record, timestamp);
	end_rounds(thread, bpf_get_current_task_btf(), timestamp);
	if (options.totals)
		end_totals(thread, timestamp);
	return 0;
}

/*
 * @thread, the current one, leaves the CPU of this @place to be in @state. Functions of the
 * scheduler's that every switch calls are few: a call takes 5 to 15 ns where returns are guarded.
 */
__noinline int switch_out_thread(struct thread *thread, struct thread_record *record,
				 const struct timestamp *timestamp, const struct queue_place *place,
				 __u32 state)
{
	if (!thread || !timestamp || !place)
		return 0;
	if (may_run_unseen(thread, timestamp))
		check_run(thread, timestamp);
	check_guest(thread, timestamp, timestamp->now_ns);
	begin_switch_out(thread, record, timestamp);
	if (is_waiting(state))
		end_unseen_call(thread, record, timestamp);
	else if (state == STATE_NOT_ALIVE)
		end_life(thread, record, timestamp);
	/* Behind what charges this run itself, if what it was in was over. */
	note_run(thread, timestamp);
	enter_state(thread, state, timestamp);
	if (state == STATE_READY_PREEMPTED) {
		thread->ready_since_ns = timestamp->now_ns;
		begin_wait(thread, place);
	}
	end_change(thread);
	return 0;
}

/* @prev, the current task, leaves @cpu. */
static __always_inline void switch_out(struct task_struct *prev, __u32 cpu, const struct rq *rq,
				       bool preempt, struct timestamp *timestamp)
{
	struct queue_place place = {(__u64)group_of(prev), options.accounting ? switches_of(rq) : 0,
				    cpu, 0};
	struct thread *thread = find_settled_thread(prev);

	if (!thread)
		return;
	if (prev->__state & (__TASK_STOPPED | __TASK_TRACED))
		note_stopped(prev, timestamp->now_ns);
	if (options.polls_only) {
		if (thread->mode == MODE_SYSCALL)
			begin_unseen_round(thread, timestamp->now_ns);
		see_call(thread, timestamp, preempt);
	}
	begin_off_cpu_round(thread, timestamp);
	use_round(timestamp, thread);
	end_steal(thread, rq);
	switch_out_thread(thread, find_or_make_record(thread, timestamp), timestamp, &place,
			  state_after(prev, preempt, timestamp));
}

/*
 * Moves what @thread was throttled in its wait, which is charged, to that state. Not static, as
 * take_record().
 */
__noinline int move_throttled(struct thread *thread, struct thread_record *record)
{
	struct syscall_record *syscall;
	__u64 length_ns;
	__u32 slot;

	if (!options.accounting || !thread || !record)
		return 0;
	length_ns = thread->throttled_ns;
	slot = thread->state & (STATE_SLOTS - 1);
	record->account.state_ns[thread->mode & (MODE_SLOTS - 1)][slot] -= length_ns;
	record->account.state_ns[thread->mode & (MODE_SLOTS - 1)][STATE_THROTTLED] += length_ns;
	if (options.totals) {
		thread->totals.state_ns[thread->mode & (MODE_SLOTS - 1)][slot] -= length_ns;
		thread->totals.state_ns[thread->mode & (MODE_SLOTS - 1)][STATE_THROTTLED] +=
			length_ns;
	}
	if (thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL) {
		syscall = find_syscall_record(thread, thread->syscall);
		if (syscall) {
			syscall->state_ns[slot] -= length_ns;
			syscall->state_ns[STATE_THROTTLED] += length_ns;
		}
	}
	return 0;
}

/*
 * Charges who had the CPU in @thread's wait, which is charged; as charge_wait(). Returns how
 * long it was throttled.
 */
static __always_inline __u64 charge_cpu_wait(struct thread_record *record, struct thread *thread,
					     __u32 cpu, bool here, bool known,
					     const struct timestamp *timestamp)
{
	charge_wait(record, thread, cpu, here, known, timestamp);
	if (!thread->throttled_ns)
		return 0;
	move_throttled(thread, record);
	if (has_timeline())
		report_throttled(thread, thread->throttled_ns, timestamp);
	return thread->throttled_ns;
}

static __always_inline void count_ready_total(struct thread *thread, __u64 since_ns,
					      const struct timestamp *timestamp)
{
	__u64 length_ns = length_since(timestamp->now_ns, since_ns);
	__u32 bucket;

	if (!options.totals || thread->ready_since_ns < thread->totals.since_ns)
		return;
	bucket = log2_of(length_ns);
	barrier_var(bucket);
	thread->totals.ready_lengths[bucket & (HISTOGRAM_BUCKETS - 1)]++;
	thread->totals.ready_ns += length_ns;
}

/* Counts @thread's wait for a CPU, without the @throttled_ns. */
static __always_inline void count_wait(struct thread *thread, struct thread_record *record,
				       const struct timestamp *timestamp, __u64 throttled_ns)
{
	/* Only the length counts. */
	__u64 since_ns = thread->ready_since_ns + throttled_ns;

	count_ready_total(thread, since_ns, timestamp);
	if (!record || !is_within(timestamp, thread->ready_since_ns))
		return;
	count_interval(&record->ready, timestamp, since_ns);
	count_length(&record->account.ready, timestamp, since_ns);
}

/*
 * Begins the change of @thread, which waited for quota, or for @cpu. The current task has had that
 * since the newest slice ended, if that is @known. Not static, as take_record().
 */
__noinline int end_ready(struct thread *thread, struct thread_record *record,
			 const struct timestamp *timestamp, __u32 cpu, bool known)
{
	__u64 length_ns, throttled_ns = 0;

	if (!thread || !timestamp)
		return 0;
	begin_change(thread);
	length_ns = charge_off_cpu(thread, record, timestamp);
	if (thread->state == STATE_THROTTLED)
		return 0;
	if (length_ns && record)
		throttled_ns = charge_cpu_wait(record, thread, cpu, true, known, timestamp);
	count_wait(thread, record, timestamp, throttled_ns);
	return 0;
}

/*
 * Ends the change of @thread to running on @cpu. Returns whether its wait began before
 * the window.
 */
static __always_inline bool end_switch_in(struct thread *thread, __u32 cpu,
					  const struct timestamp *timestamp)
{
	bool across = thread->wait_cpu && thread->since_ns < timestamp->start_ns;

	end_wait(thread, cpu);
	thread->run_since_ns = timestamp->now_ns;
	enter_state(thread, STATE_RUNNING, timestamp);
	end_change(thread);
	return across;
}

/*
 * @next, of @thread, gets on a CPU and was not seen to leave one: notes in which call it is. If
 * that is its poll, what began as that was entered was no round.
 */
static __always_inline void note_unseen_call(struct thread *thread, struct task_struct *next)
{
	struct pt_regs *regs;
	__u8 flags;

	/* Who was preempted or throttled may be on its way out of a poll that was over at once. */
	if (!HAS_TASK_PT_REGS || !counts_waits() || thread->arrivals == UNKNOWN_ARRIVALS ||
	    (__u16)next->nvcsw == thread->sleeps)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(next);
	/* Outside of calls the number is negative, and has no flags. */
	thread->syscall = syscall_id(next, syscall_number((struct pt_regs___syscall *)regs));
	flags = syscall_flags(thread->syscall);
	/* A ring in which it slept, or a poll that goes on; for others see leaves_poll(). */
	thread->polls =
		(flags / SYSCALL_MAY_POLL | (flags / SYSCALL_RESTARTS & thread->polls_again)) & 1;
}

/*
 * @next gets on @cpu, and was seen to get on if that is @known. Returns whether its wait began
 * before the window: then user space, which accounts for the end of the window before, needs the
 * slices up to now.
 */
static __always_inline bool switch_in(struct task_struct *next, __u32 cpu, const struct rq *rq,
				      bool known, struct timestamp *timestamp)
{
	struct thread *thread = find_settled_thread(next);
	struct thread_record *record;
	bool across;

	if (!thread)
		return false;
	if (options.polls_only && thread->state == STATE_RUNNING)
		note_unseen_call(thread, next);
	use_round(timestamp, thread);
	begin_steal(thread, rq);
	record = find_or_make_record(thread, timestamp);
	keep_off_cpu_time(thread, timestamp);
	if (has_unseen_run(thread, next))
		end_unknown_state(thread, record, timestamp);
	/* Nothing wakes one that was throttled. */
	if (is_waiting(thread->state))
		end_ready(thread, record, timestamp, cpu, known);
	else
		end_unseen_wait(thread, record, timestamp, unseen_wait(thread, rq, next));
	across = end_switch_in(thread, cpu, timestamp);
	if (options.off_cpu_round_ns && thread->reports_off_cpu_rounds)
		end_off_cpu_round(thread, record, timestamp);
	if (options.polls_only && leave_seen_call(thread, record, timestamp)) {
		note_task_times(&thread->round_times, thread, next, rq);
		note_retry(thread, next);
	}
	return across;
}

/*
 * The current task had @cpu up to now, see end_slice(). If a switch was missed, that was before
 * it was taken to run. Not static, as take_record().
 */
__noinline int end_slice_of_current(__u32 cpu, bool known, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct run_queue *run_queue = run_queue_of(cpu);

	if (!options.accounting || !run_queue)
		return 0;
	if (!known)
		end_unknown_slice(run_queue, cpu, now_ns - current_ran_ns());
	end_slice(run_queue, cpu, task, true, now_ns);
	return 0;
}

static __always_inline void note_switch(bool preempt, struct task_struct *prev,
					struct task_struct *next, __u32 cpu)
{
	struct run_queue *run_queue = run_queue_of(cpu);
	bool known = true, across = false;
	struct timestamp timestamp;
	struct rq *rq;

	/* One timestamp for both, as reading the clock is what costs most. */
	take_timestamp(&timestamp);
	if (!run_queue)
		return;
	/* It is @prev's run queue too. */
	rq = options.accounting ? kernel_run_queue(next) : NULL;
	if (options.accounting && is_waited_for(run_queue)) {
		known = note_switches(run_queue, switches_of(rq), 1);
		if (!known) {
			count_up(&control.missed_others_switches);
			note_untraced(run_queue->next);
		}
		see_traced(prev);
	}
	if (is_target(next))
		across = switch_in(next, cpu, rq, known, &timestamp);
	if (options.accounting && (across || is_waited_for(run_queue)))
		end_slice_of_current(cpu, known, timestamp.now_ns);
	if (is_target(prev))
		switch_out(prev, cpu, rq, preempt, &timestamp);
	run_queue->next = (__u64)next;
	if (options.rounds && has_run_queues())
		run_queue->behind_ns = timestamp.now_ns - rq->clock;
}

#endif
