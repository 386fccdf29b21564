/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The scheduler's side of a thread: when it leaves a CPU and why, when it is
 * woken, and when it gets on one again.
 */
#ifndef KERNEL_DELAY_SCHEDULING_H
#define KERNEL_DELAY_SCHEDULING_H

#include "holder.h"
#include "soft_irq.h"
#include "syscall.h"

static __always_inline bool is_ready(enum thread_state state)
{
	return state == STATE_READY_WOKEN || state == STATE_READY_PREEMPTED;
}

/*
 * @expected is whether an event fits the one before it. If not, the program
 * was not run on one in between, and what that one began has no known start.
 */
static __always_inline void check_order(const struct thread *thread, bool expected)
{
	if (!expected && thread->state != STATE_UNKNOWN)
		count_up(&control.missed_events);
}

/* Charges the time in a state off the CPU, which is the syscall's too. Returns how much. */
static __always_inline __u64 charge_state(struct thread *thread, struct thread_record *record,
					  const struct moment *moment)
{
	__u32 state = thread->state & (STATE_SLOTS - 1);
	struct syscall_record *syscall;
	__u64 length_ns;

	if (!options.accounting || !record || state == STATE_RUNNING)
		return 0;
	length_ns = clip(moment, thread->since_ns);
	if (!length_ns)
		return 0;
	if (state == STATE_ABSENT) {
		record->account.absent_ns += length_ns;
		return 0;
	}
	record->account.state_ns[thread->mode & (MODE_SLOTS - 1)][state] += length_ns;
	take_off_cpu_from_soft_irq(thread, moment, length_ns);
	if (thread->mode != MODE_SYSCALL || thread->syscall == NO_SYSCALL)
		return length_ns;
	syscall = find_syscall_record(thread, thread->syscall);
	if (syscall)
		syscall->state_ns[state] += length_ns;
	if (state == STATE_BLOCKED && thread->lock_holder &&
	    syscall_flags(thread->syscall) & SYSCALL_IS_FUTEX)
		charge_lock_holder(record, thread, length_ns);
	return length_ns;
}

/*
 * From its charge on until it is made, a change of state is told to be under
 * way: what is read then of the charges and of the state does not fit together.
 */
static __always_inline void begin_change(struct thread *thread)
{
	thread->state_changes++;
	barrier();
}

static __always_inline void end_change(struct thread *thread)
{
	barrier();
	thread->state_changes++;
}

static __always_inline void enter_state(struct thread *thread, enum thread_state state,
					const struct moment *moment)
{
	thread->state = state;
	thread->since_ns = moment->now_ns;
}

/* @thread leaves its CPU for the last time, still in whatever it does. */
static __always_inline void end_thread(struct thread *thread, struct thread_record *record,
				       const struct moment *moment)
{
	if (!record)
		return;
	charge_mode(thread, record, moment);
	if (thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_edge(thread, moment);
	/* Last, as from then on user space may use the record for another thread. */
	__sync_lock_test_and_set(&record->account.gone_ns, moment->now_ns);
}

/*
 * @task leaves its CPU. One that is preempted, or that was about to sleep when
 * a signal came (__state is TASK_RUNNING again), can go on: it is ready.
 * kernel/sched/core.c:__schedule(), 5.14 to 6.18.
 */
static __always_inline void leave_cpu(struct task_struct *task, bool preempt,
				      const struct moment *moment)
{
	struct thread *thread = find_thread(task);
	unsigned int task_state = task->__state;
	struct thread_record *record;
	enum thread_state state;

	if (!thread)
		return;
	if (preempt || task_state == TASK_RUNNING)
		state = STATE_READY_PREEMPTED;
	else if (task_state & (__TASK_STOPPED | __TASK_TRACED))
		state = STATE_STOPPED;
	else if (task_state & TASK_DEAD)
		state = STATE_ABSENT;
	else
		state = STATE_BLOCKED;

	record = find_record(thread, task, moment);
	check_order(thread, thread->run_since_ns);
	if (record && is_within(moment, thread->run_since_ns)) {
		count_interval(&record->run, moment, thread->run_since_ns);
		count_length(&record->account.run, moment, thread->run_since_ns);
	}
	thread->run_since_ns = 0;
	begin_change(thread);
	if (state == STATE_ABSENT)
		end_thread(thread, record, moment);
	enter_state(thread, state, moment);
	end_change(thread);
}

/* @task gets on the CPU that @before leaves. */
static __always_inline void enter_cpu(struct task_struct *task, struct task_struct *before,
				      const struct moment *moment)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	__u64 waited_ns;

	if (!thread)
		return;
	record = find_record(thread, task, moment);
	check_order(thread, is_ready(thread->state));
	begin_change(thread);
	waited_ns = charge_state(thread, record, moment);
	if (record && is_ready(thread->state)) {
		if (is_within(moment, thread->since_ns)) {
			count_interval(&record->ready, moment, thread->since_ns);
			count_length(&record->account.ready, moment, thread->since_ns);
		}
		if (waited_ns)
			charge_cpu_holder(record, before, waited_ns);
	}
	thread->run_since_ns = moment->now_ns;
	enter_state(thread, STATE_RUNNING, moment);
	end_change(thread);
}

/* @task can run again, if it does not run already: it may be woken before it slept. */
static __always_inline void wake(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct moment moment;

	if (!thread || thread->state == STATE_RUNNING || is_ready(thread->state))
		return;
	take_moment(&moment);
	record = find_record(thread, task, &moment);
	begin_change(thread);
	if (record && thread->state == STATE_STOPPED && is_within(&moment, thread->since_ns))
		count_interval(&record->stopped, &moment, thread->since_ns);
	charge_state(thread, record, &moment);
	if (thread->state == STATE_ABSENT) /* new: it is in clone(2) from now on */
		thread->mode_since_ns = moment.now_ns;
	enter_state(thread, STATE_READY_WOKEN, &moment);
	end_change(thread);
}

#endif
