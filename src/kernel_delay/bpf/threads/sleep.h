/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where a thread slept and who woke it. A sleep that is worth it is looked at when
 * it is about to end, by its waker (sched_waking): then the thread is in the kernel
 * still where it slept. Its time is charged when it has ended (sched_wakeup), so
 * that all sleeps make up the time in STATE_BLOCKED.
 */
#ifndef KERNEL_DELAY_SLEEP_H
#define KERNEL_DELAY_SLEEP_H

#include "accounting.h"
#include "contexts.h"
#include "freezer.h"
#include "owner.h"
#include "run_queue.h"
#include "sleep_record.h"
#include "sleep_stack.h"
#include "waker_stack.h"

static __always_inline bool is_long_sleep(__u64 since_ns, __u64 now_ns)
{
	return length_since(now_ns, since_ns) >= options.sleep_ns;
}

/* thread.sleep_record of one that was not worth a look. */
#define UNSEEN_SLEEP ((__u64)-1)

/* The time in short sleeps of @thread's for which no other was looked at yet, in @record. */
static __always_inline __u64 unseen_ns(const struct thread *thread,
				       const struct thread_record *record)
{
	return thread->unseen_record == record->number ? thread->unseen_ns : 0;
}

/*
 * Is it worth a look what @thread sleeps for? From options.sleep_ns on each sleep is, and
 * of the shorter ones one in so much time, which stands for all since the one before.
 */
static __always_inline bool is_worth_a_look(const struct thread *thread, __u64 now_ns)
{
	__u64 length_ns = length_since(now_ns, thread->since_ns);

	return length_ns + thread->unseen_ns >= options.sleep_ns;
}

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
	key->file = sleep_file(task);
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
	record = find_record(thread, &timestamp);
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

static __always_inline void charge_unseen_sleep(struct thread *thread, struct thread_record *record,
						__u64 length_ns)
{
	record->account.short_sleeps++;
	record->account.short_sleeps_ns += length_ns;
	thread->unseen_ns = unseen_ns(thread, record) + length_ns;
	thread->unseen_record = record->number;
}

/*
 * Charges a time in the window of a sleep that is over, and began at thread->since_ns. A short
 * one that was looked at stands for those that were not.
 */
static __always_inline void charge_sleep(struct thread *thread, struct thread_record *record,
					 __u64 length_ns)
{
	bool noted = thread->sleep_since_ns == thread->since_ns;
	struct sleep_record *sleep = NULL;

	if (noted && thread->sleep_record == UNSEEN_SLEEP) {
		charge_unseen_sleep(thread, record, length_ns);
		return;
	}
	if (noted && thread->sleep_record)
		sleep = sleep_record_at(thread->sleep_record);
	if (!sleep || sleep->thread != record->number) {
		record->account.other_sleeps++;
		record->account.other_sleeps_ns += length_ns;
		return;
	}
	sleep->sleeps++;
	sleep->total_ns += length_ns;
	if (length_ns > sleep->max_ns)
		sleep->max_ns = length_ns;
	if (thread->sleep_is_short) {
		sleep->short_ns += length_ns + unseen_ns(thread, record);
		sleep->total_ns += unseen_ns(thread, record);
		record->account.short_sleeps_ns -= unseen_ns(thread, record);
		thread->unseen_ns = 0;
	}
}

#endif
