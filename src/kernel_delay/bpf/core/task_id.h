/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A thread's id as a tool sees it that is in a PID namespace of its own.
 */
#ifndef KERNEL_DELAY_TASK_ID_H
#define KERNEL_DELAY_TASK_ID_H

#include "kernel.h"

/*
 * The id of @task in the PID namespace at @level, above 0: of the numbers of a struct
 * pid, one a level of nesting, the one at that level. 0 if it is not there.
 */
static __always_inline __u32 inner_task_id(struct task_struct *task, __u32 level)
{
	struct upid upid = {};
	struct pid *pid;
	void *numbers;

	pid = BPF_CORE_READ(task, thread_pid);
	if (BPF_CORE_READ(pid, level) < level)
		return 0;
	numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	bpf_probe_read_kernel(&upid, sizeof(upid), numbers + level * sizeof(upid));
	return upid.nr;
}

static __always_inline __u32 task_id(struct task_struct *task, __u32 level)
{
	return level ? inner_task_id(task, level) : (__u32)task->pid;
}

/* As @task itself sees it, and so what is in the futexes that it owns. */
static __always_inline __u32 own_task_id(struct task_struct *task)
{
	return task_id(task, BPF_CORE_READ(task, thread_pid, level));
}

#endif
