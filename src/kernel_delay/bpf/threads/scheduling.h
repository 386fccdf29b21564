/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The scheduler's side of a thread: when it leaves a CPU and why, when it is
 * woken, and when it gets on one again.
 */
#ifndef KERNEL_DELAY_SCHEDULING_H
#define KERNEL_DELAY_SCHEDULING_H

#include "owner.h"
#include "sleep.h"
#include "state.h"
#include "steal.h"
#include "syscall.h"

static __always_inline bool is_ready(enum scheduler_state state)
{
	return state == STATE_READY_WOKEN || state == STATE_READY_PREEMPTED;
}

/* Charges the time in a state off the CPU. Returns how much. */
static __always_inline __u64 charge_state(struct thread *thread, struct thread_record *record,
					  const struct timestamp *timestamp)
{
	__u32 state = thread->state;
	__u64 length_ns;

	if (state == STATE_RUNNING)
		return 0;
	if (has_timeline())
		tell_state(thread, state, thread->since_ns, timestamp);
	add_state_total(thread, state, thread->since_ns, timestamp);
	if (state == STATE_NOT_ALIVE) {
		if (options.accounting && record)
			record->account.not_alive_ns += clip(timestamp, thread->since_ns);
		return 0;
	}
	if (!options.accounting)
		return 0;
	length_ns = clip(timestamp, thread->since_ns);
	if (!record) {
		if (reports_events())
			note_off_cpu(thread, false, length_ns);
		return 0;
	}
	charge_length(thread, record, state, timestamp, length_ns);
	if (length_ns && state == STATE_BLOCKED && thread->mode == MODE_SYSCALL &&
	    thread->futex_owner && syscall_flags(thread->syscall) & SYSCALL_IS_FUTEX)
		charge_futex_owner(record, thread, length_ns);
	return length_ns;
}

/*
 * @thread leaves its CPU for the last time, still in whatever it does. As others here that few
 * switches call it is not static: the verifier would follow each way through it to the program's
 * end. What all call is inline, as calls make up half of what a switch costs.
 */
__noinline int end_thread(struct thread *thread, struct thread_record *record,
			  const struct timestamp *timestamp)
{
	if (!thread || !record || !timestamp)
		return 0;
	charge_mode(thread, record, timestamp);
	if (has_timeline())
		tell_mode(thread, false, timestamp);
	if (thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_boundary(thread, timestamp);
	/* Last, as from then on user space may use the record for another thread. */
	__sync_lock_test_and_set(&record->account.exit_ns, timestamp->now_ns);
	return 0;
}

/*
 * Has the CPU quota of @task's cgroup, or of one above, been used up, so that it
 * is kept from running? kernel/sched/fair.c:throttle_cfs_rq(), 5.14 to 6.17, and
 * throttle_cfs_rq_work(), from 6.18 on. Nothing tells when that ends: until it gets
 * on a CPU again it counts as throttled.
 */
static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *own = (void *)task;

	if (bpf_core_field_exists(own->throttled))
		return own->throttled;
	return group_is_throttled(task);
}

/*
 * Does @task, which sleeps, sleep since a freezer has it do so? cgroup v1's:
 * kernel/freezer.c:__refrigerator(). v2's: kernel/signal.c:do_freezer_trap(); a task
 * counts as frozen elsewhere too, as in vfork(2), but is not asked to be. 5.14 to 6.18.
 */
static __always_inline bool is_frozen(struct task_struct *task, unsigned int task_state)
{
	struct task_struct___frozen *counted = (void *)task;

	if (LINUX_KERNEL_VERSION < KERNEL_VERSION(6, 1, 0) && task->flags & PF_FROZEN)
		return true;
	if (task_state & TASK_FROZEN)
		return true;
	return task->jobctl & JOBCTL_TRAP_FREEZE && bpf_core_field_exists(counted->frozen) &&
	       BPF_CORE_READ_BITFIELD_PROBED(counted, frozen);
}

/* What @prev does from now on; kernel/sched/core.c:__schedule(), 5.14 to 6.18. */
static __always_inline enum scheduler_state state_after(struct task_struct *prev, bool preempt)
{
	unsigned int task_state = prev->__state;

	/* One that was about to sleep when a signal came is TASK_RUNNING again. */
	if (preempt || task_state == TASK_RUNNING)
		return is_throttled(prev) ? STATE_THROTTLED : STATE_READY_PREEMPTED;
	if (task_state & (__TASK_STOPPED | __TASK_TRACED))
		return STATE_STOPPED;
	if (task_state & TASK_DEAD)
		return STATE_NOT_ALIVE;
	return is_frozen(prev, task_state) ? STATE_FROZEN : STATE_BLOCKED;
}

/* Begins the change of @thread, which leaves its CPU. */
static __always_inline void begin_switch_out(struct thread *thread, struct thread_record *record,
					     const struct timestamp *timestamp)
{
	check_order(thread, record, thread->state == STATE_RUNNING);
	if (record && is_within(timestamp, thread->run_since_ns)) {
		count_interval(&record->run, timestamp, thread->run_since_ns);
		count_length(&record->account.run, timestamp, thread->run_since_ns);
	}
	thread->run_since_ns = 0;
	begin_change(thread);
	if (thread->state != STATE_RUNNING)
		return;
	note_run(thread, timestamp);
	if (has_timeline())
		tell_state(thread, STATE_RUNNING, thread->since_ns, timestamp);
}

/*
 * @thread, which does not poll, is about to leave its CPU: until it is back is a round. One that
 * polls all the same has nothing else to do.
 */
static __always_inline void begin_off_cpu_round(struct thread *thread,
						const struct timestamp *timestamp)
{
	if (!options.off_cpu_round_ns || !thread->tells_off_cpu_rounds)
		return;
	if (thread->mode == MODE_SYSCALL && syscall_flags(thread->syscall) & SYSCALL_IS_POLL)
		return;
	begin_round(thread, timestamp, false);
}

/* @thread is back. Not static, see end_thread(). */
__noinline int end_off_cpu_round(struct thread *thread, struct thread_record *record,
				 const struct timestamp *timestamp)
{
	if (!thread || !timestamp)
		return 0;
	if (record && thread->mode == MODE_SYSCALL && thread->syscall != NO_SYSCALL)
		end_call_at_boundary(thread, timestamp);
	enter_mode(thread, record, thread->mode, timestamp);
	thread->round_stop_ns = timestamp->now_ns;
	if (count_round(thread, timestamp, true))
		tell_round(thread, ROUND_IS_OFF_CPU);
	return 0;
}

/* @prev leaves @cpu. */
static __always_inline void switch_out(struct task_struct *prev, __u32 cpu, bool preempt,
				       struct timestamp *timestamp)
{
	struct thread *thread = find_thread(prev);
	enum scheduler_state state = state_after(prev, preempt);
	struct thread_record *record;

	if (!thread)
		return;
	if (prev->__state & __TASK_TRACED)
		control.traced = 1;
	begin_off_cpu_round(thread, timestamp);
	use_round(timestamp, thread);
	end_steal(thread, prev);
	record = find_record(thread, prev, timestamp);
	begin_switch_out(thread, record, timestamp);
	if (thread->state != STATE_RUNNING) {
		charge_unknown(thread, record, timestamp);
		end_wait(thread, cpu);
		enter_state(thread, STATE_RUNNING, timestamp);
	}
	if (state == STATE_READY_PREEMPTED || state == STATE_THROTTLED)
		find_returned(thread, record, prev, timestamp);
	if (state == STATE_NOT_ALIVE) {
		end_thread(thread, record, timestamp);
		end_rounds(thread, prev, timestamp);
		if (options.totals)
			end_totals(thread, timestamp);
	}
	enter_state(thread, state, timestamp);
	if (state == STATE_READY_PREEMPTED) {
		thread->ready_since_ns = timestamp->now_ns;
		begin_wait(thread, prev, cpu);
	}
	end_change(thread);
}

/* Begins the change of @thread to running: all but the charges. */
static __always_inline void begin_switch_in(struct thread *thread, struct thread_record *record)
{
	/* Nothing wakes one that was throttled. */
	check_order(thread, record, is_ready(thread->state) || thread->state == STATE_THROTTLED);
	begin_change(thread);
}

/*
 * Moves what @thread was throttled in its wait, which is charged, to that state. Not static,
 * see end_thread().
 */
__noinline int move_throttled(struct thread *thread, struct thread_record *record)
{
	struct syscall_record *syscall;
	__u64 length_ns;
	__u32 slot;

	if (!thread || !record)
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
					     __u32 cpu, struct task_struct *task, bool known,
					     const struct timestamp *timestamp)
{
	charge_wait(record, thread, cpu, task, known, timestamp);
	if (!thread->throttled_ns)
		return 0;
	move_throttled(thread, record);
	if (has_timeline())
		tell_throttled(thread, thread->throttled_ns, timestamp);
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
 * @next gets on @cpu, which @prev leaves, and was seen to get on if that is @known. Returns whether
 * its wait began before the window: then user space, which accounts for the end of the window
 * before, needs the slices up to now.
 */
static __always_inline bool switch_in(struct task_struct *next, struct task_struct *prev, __u32 cpu,
				      bool known, struct timestamp *timestamp)
{
	struct thread *thread = find_thread(next);
	struct thread_record *record;
	__u64 throttled_ns = 0;
	bool across;

	if (!thread)
		return false;
	use_round(timestamp, thread);
	begin_steal(thread, next);
	record = find_record(thread, next, timestamp);
	begin_switch_in(thread, record);
	keep_off_cpu_time(thread, timestamp);
	if (is_ready(thread->state)) {
		if (charge_state(thread, record, timestamp) && record)
			throttled_ns = charge_cpu_wait(record, thread, cpu, prev, known, timestamp);
		count_wait(thread, record, timestamp, throttled_ns);
	} else if (thread->state == STATE_THROTTLED) {
		charge_state(thread, record, timestamp);
	} else {
		charge_unknown(thread, record, timestamp);
	}
	across = end_switch_in(thread, cpu, timestamp);
	if (options.off_cpu_round_ns && thread->tells_off_cpu_rounds &&
	    thread->round_stop_ns == NEVER_NS) {
		bpf_probe_read_kernel_str(thread->round_comm, sizeof(thread->round_comm),
					  next->comm);
		end_off_cpu_round(thread, record, timestamp);
	}
	return across;
}

/* Apart, so that what is called for every switch of the machine is short. */
static __noinline int note_switch(bool preempt, struct task_struct *prev, struct task_struct *next,
				  __u32 cpu)
{
	struct run_queue *run_queue = run_queue_of(cpu);
	bool waited_for = run_queue && is_waited_for(run_queue), known = true, across = false;
	struct timestamp timestamp;

	/* One timestamp for both, as reading the clock is what costs most. */
	take_timestamp(&timestamp);
	if (waited_for) {
		known = note_switches(run_queue, next, 1);
		if (!known)
			count_up(&control.missed_events);
	}
	if (is_target(next))
		across = switch_in(next, prev, cpu, known, &timestamp);
	if (options.accounting && run_queue && (across || is_waited_for(run_queue)))
		end_slice(run_queue, cpu, prev, known, timestamp.now_ns);
	if (is_target(prev))
		switch_out(prev, cpu, preempt, &timestamp);
	return 0;
}

/*
 * @task can run again, if it does not run already: it may be woken before it
 * slept. One on a CPU of which it is told otherwise is back without having
 * been seen, and here its run queue may not be locked.
 */
static __always_inline void wake(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;
	__u64 length_ns;
	__u32 cpu;

	if (!thread || thread->state == STATE_RUNNING || is_ready(thread->state) || task->on_cpu ||
	    thread->state == STATE_THROTTLED)
		return;
	take_timestamp_at(&timestamp, wakeup_ns(thread));
	use_round(&timestamp, thread);
	cpu = task_cpu(task);
	record = find_record(thread, task, &timestamp);
	begin_change(thread);
	/* It was stopped before anyone looked. */
	if (record && thread->state == STATE_STOPPED && !control.stop_signal)
		control.other_stops_ns = timestamp.now_ns;
	if (record && thread->state == STATE_STOPPED && is_within(&timestamp, thread->since_ns))
		count_interval(&record->stopped, &timestamp, thread->since_ns);
	keep_off_cpu_time(thread, &timestamp);
	length_ns = charge_state(thread, record, &timestamp);
	if (thread->state == STATE_BLOCKED)
		charge_sleep(thread, record, length_ns);
	if (thread->state == STATE_NOT_ALIVE) /* new: it is in clone(2) from now on */
		thread->mode_since_ns = timestamp.now_ns;
	end_wait(thread, cpu);
	if (is_throttled(task)) {
		enter_state(thread, STATE_THROTTLED, &timestamp);
	} else {
		enter_state(thread, STATE_READY_WOKEN, &timestamp);
		thread->ready_since_ns = timestamp.now_ns;
		begin_wait(thread, task, cpu);
	}
	end_change(thread);
}

/*
 * @task is moved to another CPU, under the lock of the run queue that it is
 * taken from. If it waits, what it waited for there is charged.
 */
static __always_inline void migrate(struct task_struct *task, __u32 to)
{
	struct thread *thread = find_thread(task);
	struct task_struct *running;
	struct rq *rq;
	struct run_queue *run_queue;
	struct thread_record *record;
	struct timestamp timestamp;
	__u32 from;
	bool known;

	if (!thread || !is_ready(thread->state))
		return;
	from = task_cpu(task);
	run_queue = run_queue_of(from);
	if (from == to || !run_queue)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	record = find_record(thread, task, &timestamp);
	rq = kernel_run_queue(task);
	running = rq ? rq->curr : NULL;
	known = note_switches(run_queue, task, 0);
	begin_change(thread);
	if (charge_state(thread, record, &timestamp) && record)
		charge_cpu_wait(record, thread, from, running, known, &timestamp);
	if (running)
		end_slice(run_queue, from, running, known, timestamp.now_ns);
	thread->since_ns = timestamp.now_ns;
	end_wait(thread, from);
	/* Its group there it is given later (kernel/sched/core.c:set_task_cpu()). */
	begin_wait_unlocked(thread, to, NULL);
	end_change(thread);
}

#endif
