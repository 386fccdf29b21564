/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the kernel itself has counted of a thread, since it was made.
 */
#ifndef KERNEL_DELAY_TASK_TIMES_H
#define KERNEL_DELAY_TASK_TIMES_H

#include "steal.h"

static __always_inline void note_task_times(struct task_times *times, struct thread *thread,
					    struct task_struct *task)
{
	times->user_ns = task->utime;
	times->system_ns = task->stime;
	times->minor_faults = task->min_flt;
	times->major_faults = task->maj_flt;
	times->migrations = task->se.nr_migrations;
	times->steal_ns = steal_until_now(thread, task);
}

#endif
