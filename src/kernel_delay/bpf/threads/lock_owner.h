/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the owner of a lock did while it was waited for. That is known when the owner itself
 * ends the wait: it runs then, and has the last times in mind that it was off its CPU.
 */
#ifndef KERNEL_DELAY_LOCK_OWNER_H
#define KERNEL_DELAY_LOCK_OWNER_H

#include "accounting.h"

/* Keeps in mind that @thread was in its state until now, if that is off the CPU. */
static __always_inline void keep_off_cpu_time(struct thread *thread,
					      const struct timestamp *timestamp)
{
	struct off_cpu_time *time;

	if (length_since(timestamp->now_ns, thread->since_ns) < OFF_CPU_TIME_NS)
		return;
	time = &thread->off_cpu_times[thread->off_cpu_count++ & (OFF_CPU_TIMES - 1)];
	time->from_ns = thread->since_ns;
	time->to_ns = timestamp->now_ns;
	time->state = thread->state;
	time->syscall = thread->mode == MODE_SYSCALL ? thread->syscall : NO_SYSCALL;
	time->stack = thread->sleep_since_ns == thread->since_ns ? thread->sleep_stack : 0;
}

/*
 * Votes for where an owner was blocked most: what has more than all others together wins
 * (Boyer and Moore), and whatever wins was one of them.
 */
static __always_inline void vote(struct owner_doings *doings, __u64 syscall, __u32 stack,
				 __u64 votes_ns)
{
	if (doings->syscall == syscall && doings->stack == stack) {
		doings->vote_ns += votes_ns;
	} else if (doings->vote_ns >= votes_ns) {
		doings->vote_ns -= votes_ns;
	} else {
		doings->vote_ns = votes_ns - doings->vote_ns;
		doings->syscall = syscall;
		doings->stack = stack;
	}
}

static __always_inline void add_off_cpu_time(struct owner_doings *doings,
					     const struct off_cpu_time *time,
					     const struct timestamp *timestamp, __u64 since_ns)
{
	__u64 from_ns = time->from_ns > since_ns ? time->from_ns : since_ns;
	__u64 to_ns = time->to_ns < timestamp->stop_ns ? time->to_ns : timestamp->stop_ns;
	__u64 length_ns;

	if (to_ns <= from_ns)
		return;
	length_ns = to_ns - from_ns;
	switch (time->state) {
	case STATE_BLOCKED:
		doings->blocked_ns += length_ns;
		vote(doings, time->syscall, time->stack, length_ns);
		break;
	case STATE_READY_WOKEN:
	case STATE_READY_PREEMPTED:
		doings->ready_ns += length_ns;
		break;
	case STATE_STOPPED:
	case STATE_THROTTLED:
	case STATE_FROZEN:
		doings->held_ns += length_ns;
		break;
	}
}

/* Since when all that @thread was off its CPU is in mind. */
static __always_inline __u64 remembers_since_ns(const struct thread *thread)
{
	if (thread->off_cpu_count < OFF_CPU_TIMES)
		return 0;
	return thread->off_cpu_times[thread->off_cpu_count & (OFF_CPU_TIMES - 1)].from_ns;
}

/*
 * Notes what @owner, which runs, did in the window while @thread slept. Not static, so that it
 * is verified once, by itself.
 */
__noinline int sum_up_owner(struct thread *thread, const struct thread *owner,
			    const struct timestamp *timestamp)
{
	__u64 since_ns, from_ns;

	if (!thread || !owner || !timestamp)
		return 0;
	since_ns = thread->since_ns > timestamp->start_ns ? thread->since_ns : timestamp->start_ns;
	from_ns = remembers_since_ns(owner);
	if (since_ns < from_ns)
		since_ns = from_ns;
	__builtin_memset(&thread->owner, 0, sizeof(thread->owner));
	thread->owner.syscall = NO_SYSCALL;
	for (int i = 0; i < OFF_CPU_TIMES; i++)
		add_off_cpu_time(&thread->owner, &owner->off_cpu_times[i], timestamp, since_ns);
	thread->owner.known_ns = clip(timestamp, since_ns);
	return 0;
}

/* @thread, which slept for a lock, is woken by @current: if that owns it, it is known what it did.
 */
static __always_inline void note_owner(struct thread *thread, struct task_struct *current,
				       const struct timestamp *timestamp)
{
	struct thread *owner;

	if (thread->mode != MODE_SYSCALL || !thread->futex_owner || !is_target(current) ||
	    own_task_id(current) != thread->futex_owner)
		return;
	owner = bpf_task_storage_get(&threads, current, NULL, 0);
	if (owner)
		sum_up_owner(thread, owner, timestamp);
}

/* Adds what was noted of one wait to that of all. Not static, see above. */
__noinline int add_doings(struct owner_doings *all, const struct owner_doings *one)
{
	if (!all || !one)
		return 0;
	if (!all->known_ns)
		all->syscall = NO_SYSCALL;
	all->known_ns += one->known_ns;
	all->blocked_ns += one->blocked_ns;
	all->ready_ns += one->ready_ns;
	all->held_ns += one->held_ns;
	vote(all, one->syscall, one->stack, one->vote_ns);
	return 0;
}

#endif
