/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the kernel itself has counted of a thread, since it was made.
 */
#ifndef KERNEL_DELAY_TASK_TIMES_H
#define KERNEL_DELAY_TASK_TIMES_H

#include "run_queue.h"
#include "thread.h"

/*
 * What the hypervisor took of a thread's time on its CPU. The kernel brings each
 * run queue's count up to date whenever it looks at that queue's clock, which a
 * switch and a tick do (kernel/sched/core.c:update_rq_clock_task(), 5.14 to 6.18).
 */

static __always_inline bool has_steal_clock(void)
{
	return bpf_core_field_exists(struct rq, prev_steal_time_rq);
}

/* Of the CPU of @rq, and 1; 0 where that is not known. */
static __always_inline __u64 steal_count(const struct rq *rq)
{
	return has_run_queues() ? rq->prev_steal_time_rq + 1 : 0;
}

/* @task, of @thread, got on a CPU. */
static __always_inline void begin_steal(struct thread *thread, const struct rq *rq)
{
	if (options.accounting && has_steal_clock())
		thread->steal_since = steal_count(rq);
}

/* @task, of @thread, leaves its CPU. */
static __always_inline void end_steal(struct thread *thread, const struct rq *rq)
{
	__u64 now;

	if (!options.accounting || !has_steal_clock() || !thread->steal_since)
		return;
	now = steal_count(rq);
	if (now > thread->steal_since)
		thread->steal_ns += now - thread->steal_since;
	thread->steal_since = 0;
}

/*
 * What was stolen of the time of @thread, whose @task is in @rq, until now. One that was found on
 * its CPU counts from here on.
 */
static __always_inline __u64 steal_until_now(struct thread *thread, struct task_struct *task,
					     const struct rq *rq)
{
	__u64 before, since, now;

	if (!options.accounting || !has_steal_clock())
		return NO_STEAL_CLOCK;
	before = *(volatile __u64 *)&thread->steal_ns;
	if (!task->on_cpu)
		return before;
	now = steal_count(rq);
	since = __sync_val_compare_and_swap(&thread->steal_since, 0, now);
	return before + (length_since(now, since) & ~mask_if_same(since, 0));
}

/* Of @thread, whose @task is in @rq. */
static __always_inline void note_task_times(struct task_times *times, struct thread *thread,
					    struct task_struct *task, const struct rq *rq)
{
	times->user_ns = task->utime;
	times->system_ns = task->stime;
	times->minor_faults = task->min_flt;
	times->major_faults = task->maj_flt;
	times->migrations = task->se.nr_migrations;
	times->steal_ns = steal_until_now(thread, task, rq);
}

/* The same of the current task's @thread. */
static __always_inline void note_own_times(struct task_times *times, struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();

	note_task_times(times, thread, task, kernel_run_queue(task));
}

#endif
