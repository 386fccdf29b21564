/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What is known of a time of whose end, or of both ends, no program saw the event.
 */
#ifndef KERNEL_DELAY_UNSEEN_H
#define KERNEL_DELAY_UNSEEN_H

#include "accounting.h"
#include "round.h"
#include "run_queue.h"
#include "state.h"

/*
 * What the kernel itself counts of a task shows how it spent a time of which events were missed:
 * how long it waited for CPUs, and how often it got one (kernel/sched/stats.h:sched_info_arrive(),
 * 5.14 to 6.18).
 */
static __always_inline bool counts_waits(void)
{
	return options.accounting &&
	       bpf_core_field_exists(((struct task_struct *)0)->sched_info.pcount);
}

/* Keeps in mind what that is as @task, of @thread, leaves its CPU. */
static __always_inline void note_waits(struct thread *thread, const struct task_struct *task)
{
	thread->waits_ns = 0;
	if (!counts_waits())
		return;
	thread->waits_ns = task->sched_info.run_delay;
	thread->arrivals = task->sched_info.pcount;
	thread->sleeps = task->nvcsw;
}

/*
 * Charges so much of the time since @thread's last event to its state: all of it, if it is less.
 * Not static, as take_record().
 */
__noinline int charge_part(struct thread *thread, struct thread_record *record,
			   const struct timestamp *timestamp, __u64 length_ns)
{
	struct timestamp until;

	if (!thread || !timestamp)
		return 0;
	until = *timestamp;
	until.now_ns = thread->since_ns + length_ns;
	if (until.now_ns > timestamp->now_ns)
		until.now_ns = timestamp->now_ns;
	if (has_timeline())
		report_state(thread, thread->state, thread->since_ns, &until);
	charge_since_event(thread, record, &until, thread->state, 0);
	thread->since_ns = until.now_ns;
	return 0;
}

/* Does @thread sleep? What a freezer has of a sleep shows as it ends. */
static __always_inline bool is_plain_sleep(const struct thread *thread)
{
	return thread->state == STATE_BLOCKED && !options.freezer;
}

/*
 * By how much the scheduler's clock can be behind outside of a switch: a tick of the slowest timer.
 */
#define TICK_NS 10000000

/*
 * Charges what is known of the time since @thread, the current one, left its last CPU, if it got on
 * one once since: that is one wait, or a sleep and one. Returns whether the rest is known to be a
 * run: behind a sleep, the wait may have been for its group's quota.
 */
static __always_inline bool charge_counted(struct thread *thread, struct thread_record *record,
					   const struct timestamp *timestamp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool was_ready = is_ready(thread->state);
	__u64 waited_ns, until_ns;

	if (!counts_waits() || (__u32)task->sched_info.pcount != thread->arrivals + 1)
		return false;
	waited_ns = task->sched_info.run_delay - thread->waits_ns;
	if (was_ready) {
		/* What it waited for on another CPU is charged. */
		until_ns = waited_ns + thread->ready_since_ns;
	} else {
		if (!has_run_queues() || !is_plain_sleep(thread))
			return false;
		/* Seldom, and so by a helper: see kernel_run_queue(). */
		until_ns =
			timestamp->now_ns - waited_ns - TICK_NS -
			(BPF_CORE_READ(task, se.cfs_rq, rq, clock) - task->sched_info.last_arrival);
	}
	charge_part(thread, record, timestamp, length_since(until_ns, thread->since_ns));
	return was_ready;
}

/* So long a run is worth a look whether it was one: 2^20 ns. */
#define LONG_RUN_SHIFT 20

/*
 * Is it to be checked whether @thread, the current one, ran since its last event? By one branch, as
 * each event of a thread's own asks for it.
 */
static __always_inline bool may_run_unseen(const struct thread *thread,
					   const struct timestamp *timestamp)
{
	return (thread->state ^ STATE_RUNNING) |
	       length_since(timestamp->now_ns, thread->mode_since_ns) >> LONG_RUN_SHIFT;
}

/*
 * Was @thread, the current one, off its CPU since its last event, and neither switch was seen? A
 * run has one arrival more than the kernel counted as the thread left its CPU before.
 */
static __always_inline bool was_off_unseen(const struct thread *thread)
{
	if (!counts_waits() || thread->arrivals == UNKNOWN_ARRIVALS)
		return false;
	return (__u32)bpf_get_current_task_btf()->sched_info.pcount - thread->arrivals > 1;
}

/*
 * Until when it is not known what @thread, the current one, did since its last event. If it
 * was_off_unseen() and did not sleep, then it ran but for its waits: nobody knows where in the run
 * they lay, and the one before the run is among them. A sleep that begins now counts as one.
 */
static __always_inline __u64 unknown_until_ns(const struct thread *thread,
					      const struct timestamp *timestamp)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	if (!counts_waits() ||
	    (thread->state ^ STATE_RUNNING) | ((__u16)task->nvcsw ^ thread->sleeps))
		return timestamp->now_ns;
	return timestamp->now_ns -
	       length_since(timestamp->now_ns,
			    last_event_ns(thread) + task->sched_info.run_delay - thread->waits_ns);
}

/* @thread, the current one, waits no more, and the switch to it was missed. */
static __always_inline void end_missed_wait(struct thread *thread)
{
	struct run_queue *run_queue = run_queue_of(thread->wait_cpu - 1);

	if (!options.accounting || !run_queue)
		return;
	note_untraced(run_queue->next);
	__sync_fetch_and_add(&run_queue->moved, -1);
	thread->wait_cpu = 0;
}

/*
 * @thread, the current one, runs, as an event of its own shows: was it seen to get on its CPU? Not
 * static, as take_record().
 */
__noinline int check_run(struct thread *thread, const struct timestamp *timestamp)
{
	struct timestamp until;
	struct thread_record *record;

	if (!thread || !timestamp)
		return 0;
	if (thread->state == STATE_RUNNING && !was_off_unseen(thread))
		return 0;
	record = find_or_make_record(thread, timestamp);
	note_missed_event(thread, record);
	begin_change(thread);
	if (thread->state == STATE_NOT_ALIVE) {
		add_state_total(thread, STATE_NOT_ALIVE, 0, timestamp);
		thread->mode_since_ns = timestamp->now_ns;
	}
	if (!charge_counted(thread, record, timestamp)) {
		until = *timestamp;
		until.now_ns = unknown_until_ns(thread, timestamp);
		charge_unknown(thread, record, &until);
		thread->since_ns = until.now_ns;
	}
	note_waits(thread, bpf_get_current_task_btf());
	/* The last of them began this run. */
	thread->arrivals--;
	thread->state = STATE_RUNNING;
	thread->run_since_ns = 0;
	end_missed_wait(thread);
	end_change(thread);
	return 0;
}

static __always_inline void check_running(struct thread *thread, const struct timestamp *timestamp)
{
	if (options.accounting && may_run_unseen(thread, timestamp))
		check_run(thread, timestamp);
}

/*
 * @task, of @thread, is off a CPU. Was it on one since it was last seen to leave one? What it
 * sleeps or waits now may have begun behind that.
 */
static __always_inline bool has_unseen_run(const struct thread *thread,
					   const struct task_struct *task)
{
	return counts_waits() && thread->arrivals != UNKNOWN_ARRIVALS &&
	       (__u32)task->sched_info.pcount != thread->arrivals;
}

/* What @thread, which has_unseen_run(), did since its last event is not known. As take_record(). */
__noinline int end_unknown_state(struct thread *thread, struct thread_record *record,
				 const struct timestamp *timestamp)
{
	if (!thread || !timestamp)
		return 0;
	note_missed_event(thread, record);
	begin_change(thread);
	charge_unknown(thread, record, timestamp);
	enter_state(thread, STATE_UNKNOWN, timestamp);
	end_change(thread);
	return 0;
}

/*
 * Ends the wait for a CPU of @thread whose end of a sleep was missed. It waited @waited_ns since it
 * left the last one, UNKNOWN_WAIT if that is not known. Not static, as take_record().
 */
__noinline int end_unseen_wait(struct thread *thread, struct thread_record *record,
			       const struct timestamp *timestamp, __u64 waited_ns)
{
	if (!thread || !timestamp)
		return 0;
	note_missed_event(thread, record);
	begin_change(thread);
	if (waited_ns == UNKNOWN_WAIT || !is_plain_sleep(thread)) {
		charge_unknown(thread, record, timestamp);
		return 0;
	}
	charge_part(thread, record, timestamp,
		    length_since(timestamp->now_ns - waited_ns, thread->since_ns));
	thread->state = STATE_READY_WOKEN;
	charge_part(thread, record, timestamp, waited_ns);
	return 0;
}

/*
 * Since when the current thread, @thread, has its CPU: since now, unless the kernel shows more. Not
 * static, as take_record().
 */
__noinline __u64 arrival_ns(const struct thread *thread, __u64 now_ns)
{
	const struct run_queue *run_queue = run_queue_of(bpf_get_smp_processor_id());
	__u64 arrived_ns;

	if (!thread || !counts_waits() || !run_queue || !run_queue->behind_ns)
		return now_ns;
	arrived_ns = bpf_get_current_task_btf()->sched_info.last_arrival + run_queue->behind_ns;
	if (arrived_ns < thread->since_ns)
		arrived_ns = thread->since_ns;
	return arrived_ns < now_ns ? arrived_ns : now_ns;
}

/*
 * How long ago @task, which is woken, got its CPU last: its run queue's clock is new. 0: the kernel
 * does not count it.
 */
static __always_inline __u64 since_arrival_ns(const struct task_struct *task, const struct rq *rq)
{
	if (!counts_waits() || !has_run_queues())
		return 0;
	return length_since(rq->clock, task->sched_info.last_arrival);
}

/*
 * The current thread, @thread, enters a call, and was seen to enter its poll last: the return was
 * missed that a round began with. It begins as the thread got its CPU, or entered the poll on it.
 * Not static, as take_record().
 */
__noinline int begin_round_of_missed_return(struct thread *thread)
{
	struct timestamp timestamp = {};

	if (!options.rounds || options.polls_only || !thread || thread->mode != MODE_SYSCALL ||
	    thread->round_stop_ns == NEVER_NS ||
	    !leaves_poll(thread, syscall_flags(thread->syscall)))
		return 0;
	timestamp.now_ns = arrival_ns(thread, bpf_ktime_get_ns());
	if (timestamp.now_ns < thread->syscall_since_ns)
		timestamp.now_ns = thread->syscall_since_ns;
	thread->poll_return_ns = timestamp.now_ns;
	begin_own_round(thread, &timestamp, false);
	return 0;
}

/* How long @next, of @thread, which is to get on its CPU, waited for one since it left the last. */
static __always_inline __u64 unseen_wait(const struct thread *thread, const struct rq *rq,
					 const struct task_struct *next)
{
	__u64 queued_ns;

	if (!counts_waits() || !has_run_queues())
		return UNKNOWN_WAIT;
	queued_ns = next->sched_info.last_queued;
	if (!queued_ns || (__u32)next->sched_info.pcount != thread->arrivals)
		return UNKNOWN_WAIT;
	return next->sched_info.run_delay - thread->waits_ns + rq->clock - queued_ns;
}

#endif
