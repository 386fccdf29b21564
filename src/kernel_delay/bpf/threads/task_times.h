/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the kernel itself has counted of a thread, since it was made.
 */
#ifndef KERNEL_DELAY_TASK_TIMES_H
#define KERNEL_DELAY_TASK_TIMES_H

#include "steal.h"

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
