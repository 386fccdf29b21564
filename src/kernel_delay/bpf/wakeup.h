/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A thread's sleep ends: who wakes it is noted, and it is queued at a CPU, or moved to another.
 */
#ifndef KERNEL_DELAY_WAKEUP_H
#define KERNEL_DELAY_WAKEUP_H

#include "switch.h"

/*
 * Finds the sleep_record of @thread's sleep, which the current task ends if @key says so. Not
 * static, as take_record().
 */
__noinline int note_sleep_record(struct thread *thread, struct thread_record *record,
				 struct sleep_key *key)
{
	struct sleep_record *sleep;
	__u64 number;

	if (!thread || !record || !key)
		return 0;
	key->syscall = thread->mode == MODE_SYSCALL ? thread->syscall : NO_SYSCALL;
	number = find_sleep_of_waker(record, key);
	thread->sleep_record = number;
	sleep = number ? sleep_record_at(number) : NULL;
	if (sleep && key->waker && !sleep->sleeps)
		note_task(&sleep->waker, bpf_get_current_task_btf());
	return 0;
}

/* Of the sleeps of a call its event has the longest, here thread->sleep_stack's. */
static __always_inline void note_sleep_of_call(struct thread *thread,
					       const struct timestamp *timestamp)
{
	__u64 length_ns = length_since(timestamp->now_ns, thread->since_ns);

	if (thread->mode != MODE_SYSCALL || length_ns <= thread->call_sleep_ns)
		return;
	thread->call_sleep_ns = length_ns;
	thread->call_sleep_stack = thread->sleep_stack;
}

/*
 * Of epoll_wait(2) by a thread with these open @files, a struct files_struct, on @file: the newest
 * file that was found ready of those that are watched. It wakes up who sleeps there, and before
 * that all are taken from the list (fs/eventpoll.c:ep_poll_callback(), 5.14 to 7.2). None is where
 * a timer or a signal wakes it: then, as of any other call, it is @file. Not static, as
 * take_record().
 */
__noinline __u64 awaited_file(__u64 files, __u64 file, __u8 flags)
{
	const __u8 epoll_wait = SYSCALL_IS_POLL | SYSCALL_HAS_FILE;
	struct file *epoll_file;
	struct eventpoll *epoll;
	struct epitem *item;

	if (!options.accounting || !file || (flags & epoll_wait) != epoll_wait ||
	    !bpf_core_field_exists(struct eventpoll, file) ||
	    !bpf_core_field_exists(struct epitem, ep))
		return file;
	epoll_file = open_file((struct files_struct *)files, (__u32)file - 1);
	epoll = BPF_CORE_READ(epoll_file, private_data);
	if (!epoll)
		return file;
	item = (void *)BPF_CORE_READ(epoll, rdllist.prev) -
	       bpf_core_field_offset(struct epitem, rdllink);
	/* Of another call's file the first does not hold, of an empty list the second. */
	if (BPF_CORE_READ(epoll, file) != epoll_file || BPF_CORE_READ(item, ep) != epoll)
		return file;
	return key_of_file(BPF_CORE_READ(item, ffd.file), BPF_CORE_READ(item, ffd.fd));
}

/* @task, which is about to be woken, is still where it sleeps; its pi_lock is held. */
static __always_inline void note_waking(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct thread_record *record;
	struct task_struct *current;
	struct timestamp timestamp;
	struct sleep_key *key;
	enum waker_kind kind;
	bool is_in_window, is_signal;

	if (!thread)
		return;
	if (thread->mode == MODE_UNKNOWN)
		settle_mode(task, &thread->mode, &thread->syscall);
	if (thread->state != STATE_BLOCKED)
		return;
	take_timestamp(&timestamp);
	if (options.freezer)
		see_freezer(thread, task, timestamp.now_ns);
	else if (task->__state & TASK_FROZEN)
		thread->state = STATE_UNKNOWN;
	use_round(&timestamp, thread);
	is_in_window = timestamp.epoch && thread->since_ns < timestamp.stop_ns;
	if (!is_in_window && !options.totals)
		return;
	thread->sleep_stack = 0;
	thread->sleep_record = UNSEEN_SLEEP;
	thread->sleep_since_ns = thread->since_ns;
	thread->owner.known_ns = 0;
	thread->woken_ns = timestamp.now_ns;
	thread->woken_on = bpf_get_smp_processor_id() + 1;
	if (!is_in_window || !is_worth_a_look(thread, timestamp.now_ns))
		return;
	current = bpf_get_current_task_btf();
	key = &thread->sleep_key;
	key->waker = 0;
	key->waker_stack = 0;
	is_signal = has_signal(task);
	key->stack = sleep_stack(task, READ_BY_WAKER);
	key->file = awaited_file((__u64)BPF_CORE_READ(task, files), sleep_file(thread, task),
				 syscall_flags(thread->syscall));
	key->uninterruptible = task->__state / TASK_UNINTERRUPTIBLE & 1;
	kind = waker_kind(is_signal, current);
	key->waker_kind = kind;
	if (kind == WAKER_THREAD) {
		key->waker = current->pid;
		if (options.waker_stacks)
			key->waker_stack = waker_stack();
		note_owner(thread, current, &timestamp);
	}
	/* Before there is a record, which has it from here in what it begins with. */
	thread->sleep_stack = key->stack;
	if (reports_events())
		note_sleep_of_call(thread, &timestamp);
	thread->uninterruptible = key->uninterruptible;
	thread->sleep_is_short = !is_long_sleep(thread->since_ns, timestamp.now_ns);
	thread->sleep_record = 0;
	record = find_or_make_record(thread, &timestamp);
	if (clip(&timestamp, thread->since_ns))
		note_sleep_record(thread, record, key);
}

/*
 * When @thread is woken, that is now. On the CPU where it was about to be woken just before
 * (kernel/sched/core.c:try_to_wake_up()) the clock need not be read again.
 */
static __always_inline __u64 wakeup_ns(const struct thread *thread)
{
	if (thread->sleep_since_ns == thread->since_ns &&
	    thread->woken_on == bpf_get_smp_processor_id() + 1)
		return thread->woken_ns;
	return bpf_ktime_get_ns();
}

static __always_inline bool waits_for_lock(const struct thread *thread)
{
	return options.accounting && thread->futex_owner && thread->mode == MODE_SYSCALL &&
	       syscall_flags(thread->syscall) & SYSCALL_IS_FUTEX;
}

/* Charges what @thread slept for a lock to its owner. Not static, as take_record(). */
__noinline int charge_futex_owner(struct thread_record *record, const struct thread *thread,
				  __u64 length_ns)
{
	struct owner_record *owner;

	if (!options.accounting || !record || !thread)
		return 0;
	owner = find_owner_record(record, thread->lock, thread->futex_owner);
	if (!owner) {
		record->account.other_owners_ns += length_ns;
		return 0;
	}
	charge_owner(owner, thread->since_ns ?: 1, length_ns);
	if (thread->sleep_since_ns == thread->since_ns && thread->owner.known_ns)
		add_activity(&owner->owner, &thread->owner);
	return 0;
}

/* Charges a time in the window that @thread slept. */
static __always_inline void charge_blocked(struct thread *thread, struct thread_record *record,
					   __u64 length_ns)
{
	if (thread->state != STATE_BLOCKED || !length_ns || !record)
		return;
	if (waits_for_lock(thread))
		charge_futex_owner(record, thread, length_ns);
	charge_sleep(thread, record, length_ns);
}

/*
 * Charges what @thread, which is woken, did before it was known to be frozen. Not static, as
 * take_record().
 */
__noinline int charge_before_freeze(struct thread *thread, struct thread_record *record,
				    const struct timestamp *timestamp)
{
	struct timestamp then;

	if (!thread || !timestamp)
		return 0;
	begin_change(thread);
	then = *timestamp;
	then.now_ns = thread->blocked_until_ns;
	charge_blocked(thread, record, charge_state(thread, record, &then));
	enter_state(thread, STATE_UNKNOWN, &then);
	then.now_ns = thread->frozen_since_ns;
	charge_state(thread, record, &then);
	enter_state(thread, STATE_FROZEN, &then);
	end_change(thread);
	return 0;
}

/* @thread of @task is woken, from a freezer if it was in one. */
static __always_inline void end_freeze(struct thread *thread, struct task_struct *task,
				       const struct timestamp *timestamp)
{
	if (thread->state == STATE_FROZEN)
		note_thaw(task, timestamp->now_ns);
	else if (thread->state == STATE_BLOCKED && is_known_frozen(thread))
		charge_before_freeze(thread, find_or_make_record(thread, timestamp), timestamp);
}

/* Where @task, which is woken, is queued: its run queue is locked. */
static __always_inline void take_place(struct queue_place *at, struct task_struct *task)
{
	at->group = (__u64)group_of(task);
	at->switches = switches_of(kernel_run_queue(task));
	at->cpu = task_cpu(task);
	at->throttled = is_throttled(task);
}

/* @thread, which was woken, waits @at a place from now on, for a CPU or for its group's quota. */
static __always_inline void begin_ready(struct thread *thread, const struct queue_place *at,
					const struct timestamp *timestamp)
{
	if (at->throttled) {
		enter_state(thread, STATE_THROTTLED, timestamp);
		return;
	}
	enter_state(thread, STATE_READY_WOKEN, timestamp);
	thread->ready_since_ns = timestamp->now_ns;
	begin_wait(thread, at);
}

/* @thread, which is stopped, goes on. Not static, as take_record(). */
__noinline int count_stop(const struct thread *thread, struct thread_record *record,
			  const struct timestamp *timestamp)
{
	if (!thread || !record || !timestamp)
		return 0;
	control.stop_end_ns = timestamp->now_ns;
	/* It was stopped before anyone looked. */
	if (!control.stop_signal)
		control.other_stops_ns = timestamp->now_ns;
	if (is_within(timestamp, thread->since_ns))
		count_interval(&record->stopped, timestamp, thread->since_ns);
	return 0;
}

/* @thread is woken, and will be queued @at a place. Not static, as take_record(). */
__noinline int end_sleep(struct thread *thread, struct thread_record *record,
			 const struct timestamp *timestamp, const struct queue_place *at)
{
	if (!thread || !timestamp || !at)
		return 0;
	begin_change(thread);
	keep_off_cpu_time(thread, timestamp);
	if (thread->state == STATE_STOPPED)
		count_stop(thread, record, timestamp);
	if (thread->state == STATE_NOT_ALIVE)
		begin_life(thread, record, timestamp);
	else
		charge_blocked(thread, record, charge_off_cpu(thread, record, timestamp));
	end_wait(thread, at->cpu);
	begin_ready(thread, at, timestamp);
	end_change(thread);
	return 0;
}

/*
 * @thread, which is off its CPU, was seen to wait in its poll last: its round began as it got on
 * one, @ago_ns ago. Not static, as take_record().
 */
__noinline bool begin_round_before_sleep(struct thread *thread, __u64 ago_ns)
{
	struct timestamp timestamp = {};

	if (!options.polls_only || !thread)
		return false;
	timestamp.now_ns = bpf_ktime_get_ns() - ago_ns;
	if (timestamp.now_ns < thread->since_ns)
		timestamp.now_ns = thread->since_ns;
	see_round(&timestamp, thread);
	return leave_seen_call(thread, NULL, &timestamp);
}

/*
 * Has @task, which sleeps, of @thread, come from its poll? It was seen to wait there last, ran
 * since, and is in that no more.
 */
static __always_inline bool has_left_poll(const struct thread *thread, struct task_struct *task)
{
	struct pt_regs *regs;

	if (!HAS_TASK_PT_REGS || !thread->polls || thread->mode != MODE_SYSCALL ||
	    !has_unseen_run(thread, task))
		return false;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	/* Outside of calls the number is negative, and has no flags. */
	return !(syscall_flags(syscall_id(task, syscall_number((struct pt_regs___syscall *)regs))) &
		 (SYSCALL_IS_POLL | SYSCALL_MAY_POLL | SYSCALL_RESTARTS));
}

/*
 * @task can run again, if it does not run already: it may be woken before it
 * slept. One on a CPU of which another state is known is back without having
 * been seen, and here its run queue may not be locked.
 */
static __always_inline void wake(struct task_struct *task)
{
	struct thread *thread = find_settled_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;
	struct queue_place at;

	if (!thread || task->on_cpu)
		return;
	if (options.polls_only && has_left_poll(thread, task) &&
	    begin_round_before_sleep(thread, since_arrival_ns(task, kernel_run_queue(task))))
		note_task_times(&thread->round_times, thread, task, kernel_run_queue(task));
	if (is_one_of(thread->state, WAITING_STATES | 1 << STATE_RUNNING))
		return;
	take_timestamp_at(&timestamp, wakeup_ns(thread));
	use_round(&timestamp, thread);
	take_place(&at, task);
	if (options.freezer)
		end_freeze(thread, task, &timestamp);
	record = find_or_make_record(thread, &timestamp);
	if (has_unseen_run(thread, task))
		end_unknown_state(thread, record, &timestamp);
	end_sleep(thread, record, &timestamp, &at);
}

/* @task, which is new, gets on a run queue for the first time. */
static __always_inline void wake_new(struct task_struct *task)
{
	struct thread *thread = find_settled_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;
	struct queue_place at;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	take_place(&at, task);
	record = find_or_make_record(thread, &timestamp);
	begin_change(thread);
	begin_life(thread, record, &timestamp);
	begin_ready(thread, &at, &timestamp);
	end_change(thread);
}

/*
 * @task is moved to another CPU, under the lock of the run queue that it is
 * taken from. If it waits, what it waited for there is charged, unless that is not known.
 */
static __always_inline void migrate(struct task_struct *task, __u32 to)
{
	struct thread *thread = find_settled_thread(task);
	struct rq *rq;
	struct run_queue *run_queue;
	struct thread_record *record;
	struct timestamp timestamp;
	__u64 length_ns;
	__u32 from;
	bool known;

	if (!thread || !is_ready(thread->state) || has_unseen_run(thread, task))
		return;
	from = task_cpu(task);
	run_queue = run_queue_of(from);
	if (from == to || !run_queue)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	record = find_or_make_record(thread, &timestamp);
	rq = kernel_run_queue(task);
	known = note_switches(run_queue, switches_of(rq), 0);
	begin_change(thread);
	length_ns = charge_state(thread, record, &timestamp);
	if (has_run_queues())
		end_slice(run_queue, from, rq->curr, known, timestamp.now_ns);
	/* By now all that had the CPU is among the slices. */
	if (length_ns && record)
		charge_cpu_wait(record, thread, from, false, false, &timestamp);
	keep_off_cpu_time(thread, &timestamp);
	thread->since_ns = timestamp.now_ns;
	end_wait(thread, from);
	/* Its group there it is given later (kernel/sched/core.c:set_task_cpu()). */
	begin_wait_unlocked(thread, to, NULL);
	end_change(thread);
}

#endif
