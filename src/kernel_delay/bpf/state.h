/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A thread's state, and what is known of it. Where an event does not fit what
 * came before it, a program was not run on one in between: the time since the
 * last that is known is then charged to STATE_UNKNOWN, and to nothing else.
 */
#ifndef KERNEL_DELAY_STATE_H
#define KERNEL_DELAY_STATE_H

#include "accounting.h"
#include "run_queue.h"
#include "thread_record.h"

/* One branch for all of @states, as the verifier follows each. */
static __always_inline bool is_one_of(enum scheduler_state state, __u32 states)
{
	return 1 << (state & (STATE_SLOTS - 1)) & states;
}

static __always_inline bool is_ready(enum scheduler_state state)
{
	return is_one_of(state, 1 << STATE_READY_WOKEN | 1 << STATE_READY_PREEMPTED);
}

#define WAITING_STATES (1 << STATE_READY_WOKEN | 1 << STATE_READY_PREEMPTED | 1 << STATE_THROTTLED)

/* Does a thread in @state wait for a CPU, or for quota? */
static __always_inline bool is_waiting(enum scheduler_state state)
{
	return is_one_of(state, WAITING_STATES);
}

/*
 * Does @task, which sleeps, sleep since a freezer has it do so? cgroup v1's:
 * kernel/freezer.c:__refrigerator(). v2's: kernel/signal.c:do_freezer_trap(). 5.14 to 6.18.
 */
static __always_inline bool is_frozen(struct task_struct *task, unsigned int task_state)
{
	return is_frozen_by_v1(task, task_state) || is_frozen_by_v2(task);
}

/* What @task, which has left its CPU, does from then on; kernel/sched/core.c:__schedule(), 5.14 to
 * 6.18.
 */
static __always_inline enum scheduler_state state_of(struct task_struct *task, bool preempt)
{
	unsigned int task_state = task->__state;

	/* One that was about to sleep when a signal came is TASK_RUNNING again. */
	if (preempt || task_state == TASK_RUNNING)
		return is_throttled(task) ? STATE_THROTTLED : STATE_READY_PREEMPTED;
	if (task_state & (__TASK_STOPPED | __TASK_TRACED))
		return STATE_STOPPED;
	if (task_state & TASK_DEAD)
		return STATE_NOT_ALIVE;
	return is_frozen(task, task_state) ? STATE_FROZEN : STATE_BLOCKED;
}

/*
 * From its charge on until it is made, a change of state is reported to be under
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

static __always_inline void enter_state(struct thread *thread, enum scheduler_state state,
					const struct timestamp *timestamp)
{
	thread->state = state;
	thread->since_ns = timestamp->now_ns;
}

/*
 * An event does not fit the one before it, see check_order(). Not static, as take_record().
 *
 * The current task runs and was not seen to get on its CPU, or another gets on one: that was not
 * seen to leave the last one, or to be woken.
 */
__noinline int note_missed_event(const struct thread *thread, struct thread_record *record)
{
	if (!thread || thread->state == STATE_UNKNOWN)
		return 0;
	if (is_one_of(thread->state, WAITING_STATES | 1 << STATE_RUNNING) ||
	    thread->task == (__u64)bpf_get_current_task_btf())
		count_up(&control.missed_switches);
	else
		count_up(&control.missed_wakeups);
	if (record && thread->state != STATE_NOT_ALIVE &&
	    record->account.first.state_changes == thread->state_changes)
		record->account.first.state = STATE_UNKNOWN;
	return 0;
}

/*
 * @expected is whether an event fits the one before it. If not, the state before it is not
 * known: the windows before have that from @record, if it is the event's that made it.
 */
static __always_inline void check_order(const struct thread *thread, struct thread_record *record,
					bool expected)
{
	if (!expected)
		note_missed_event(thread, record);
}

/* Only a call that lies in the window becomes an event: all that it is off a CPU is seen here. */
static __always_inline void note_off_cpu(struct thread *thread, bool known, __u64 length_ns)
{
	if (thread->mode != MODE_SYSCALL || thread->off_cpu_ns == OFF_CPU_UNKNOWN)
		return;
	thread->off_cpu_ns = known ? thread->off_cpu_ns + length_ns : OFF_CPU_UNKNOWN;
}

/* Charges a time in the window to a @state off the CPU, and as such to the syscall's. */
static __always_inline void charge_length(struct thread *thread, struct thread_record *record,
					  enum scheduler_state state,
					  const struct timestamp *timestamp, __u64 length_ns)
{
	__u32 slot = state & (STATE_SLOTS - 1);
	struct syscall_record *syscall;

	if (!options.accounting || !length_ns)
		return;
	if (!record) {
		if (reports_events())
			note_off_cpu(thread, false, length_ns);
		return;
	}
	record->account.state_ns[thread->mode & (MODE_SLOTS - 1)][slot] += length_ns;
	if (options.rounds)
		thread->is_charged = 1;
	take_off_cpu_from_soft_irq(thread, timestamp, length_ns);
	if (thread->mode != MODE_SYSCALL || thread->syscall == NO_SYSCALL)
		return;
	syscall = find_syscall_record(thread, thread->syscall);
	if (syscall)
		syscall->state_ns[slot] += length_ns;
	if (reports_events())
		note_off_cpu(thread, state != STATE_UNKNOWN, length_ns);
}

/* When the last event of @thread's was that is known. */
static __always_inline __u64 last_event_ns(const struct thread *thread)
{
	return thread->mode_since_ns > thread->since_ns ? thread->mode_since_ns : thread->since_ns;
}

/*
 * Charges the time since the thread's last event to @state, and @ran_ns before it. One that is new
 * was not there before. Not static, as take_record().
 */
__noinline int charge_since_event(struct thread *thread, struct thread_record *record,
				  const struct timestamp *timestamp, __u32 state, __u64 ran_ns)
{
	if (!thread || !timestamp || thread->state == STATE_NOT_ALIVE)
		return 0;
	charge_length(thread, record, state, timestamp,
		      ran_ns + clip(timestamp, last_event_ns(thread)));
	add_state_total(thread, state, last_event_ns(thread), timestamp);
	return 0;
}

static __always_inline void charge_unknown(struct thread *thread, struct thread_record *record,
					   const struct timestamp *timestamp)
{
	charge_since_event(thread, record, timestamp, STATE_UNKNOWN, 0);
	if (has_timeline())
		report_unknown_state(thread, last_event_ns(thread), timestamp);
}

/* Charges all that the thread ran since its mode began: it was over at some time since. */
static __always_inline void charge_unknown_mode(struct thread *thread, struct thread_record *record,
						const struct timestamp *timestamp)
{
	charge_since_event(thread, record, timestamp, STATE_UNKNOWN,
			   thread->ran_epoch == timestamp->epoch ? thread->ran_ns : 0);
	if (options.totals && thread->state != STATE_NOT_ALIVE)
		thread->totals.state_ns[thread->mode & (MODE_SLOTS - 1)][STATE_UNKNOWN] +=
			thread->ran_total_ns;
}

/* Keeps in mind what a thread that leaves its CPU ran in its mode: it may turn out to be over. */
static __always_inline void note_run(struct thread *thread, const struct timestamp *timestamp)
{
	thread->ran_ns &= mask_if_same(thread->ran_epoch, timestamp->epoch);
	thread->ran_epoch = timestamp->epoch;
	thread->ran_ns += clip(timestamp, last_event_ns(thread));
	if (options.totals)
		thread->ran_total_ns +=
			total_since(thread, last_event_ns(thread), timestamp->now_ns);
}

/* Charges the time in a state off the CPU, of a thread that is alive. Returns how much. */
static __always_inline __u64 charge_off_cpu(struct thread *thread, struct thread_record *record,
					    const struct timestamp *timestamp)
{
	__u32 state = thread->state;
	__u64 length_ns;

	if (has_timeline())
		report_state(thread, state, thread->since_ns, timestamp);
	add_state_total(thread, state, thread->since_ns, timestamp);
	if (!options.accounting)
		return 0;
	length_ns = clip(timestamp, thread->since_ns);
	if (!record) {
		if (reports_events())
			note_off_cpu(thread, false, length_ns);
		return 0;
	}
	charge_length(thread, record, state, timestamp, length_ns);
	return length_ns;
}

/* The same where it is not done at each switch. Not static, as take_record(). */
__noinline __u64 charge_state(struct thread *thread, struct thread_record *record,
			      const struct timestamp *timestamp)
{
	return thread && timestamp ? charge_off_cpu(thread, record, timestamp) : 0;
}

static __always_inline void charge_not_alive(struct thread *thread, struct thread_record *record,
					     const struct timestamp *timestamp)
{
	if (has_timeline())
		report_state(thread, STATE_NOT_ALIVE, thread->since_ns, timestamp);
	add_state_total(thread, STATE_NOT_ALIVE, thread->since_ns, timestamp);
	if (options.accounting && record)
		record->account.not_alive_ns += clip(timestamp, thread->since_ns);
}

/* @thread, which is new, is in clone(2) from now on. Not static, as take_record(). */
__noinline int begin_life(struct thread *thread, struct thread_record *record,
			  const struct timestamp *timestamp)
{
	if (!thread || !timestamp)
		return 0;
	charge_not_alive(thread, record, timestamp);
	thread->mode_since_ns = timestamp->now_ns;
	return 0;
}

#endif
