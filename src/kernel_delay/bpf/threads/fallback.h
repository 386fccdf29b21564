/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A program that can be preempted (from 7.0 on, libbpf/features.py) is not run for any other
 * thread on that CPU until its own is back: its count of who is in it is per
 * CPU, and lets in one (kernel/trace/bpf_trace.c:__bpf_trace_run(), 7.2). So
 * it has a fallback, attached behind it to the same tracepoint, with a count
 * of its own. Both are run by the thread itself, one after the other: the
 * program leaves a note which end of a call it saw, and the fallback, which
 * finds none of this end, was left alone and does the program's work.
 *
 * A note that a fallback did not come to read does no harm, as the next is of
 * the other end.
 */
#ifndef KERNEL_DELAY_FALLBACK_H
#define KERNEL_DELAY_FALLBACK_H

#include "thread.h"

enum boundary { BOUNDARY_NONE, BOUNDARY_ENTRY, BOUNDARY_EXIT };

/* The thread of @task if its @boundary is the fallback's to note, and else NULL. */
static __always_inline struct thread *take_over(struct task_struct *task, enum boundary boundary)
{
	/* Who was not registered is the program's to count. */
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	__u64 noted;

	if (!thread)
		return NULL;
	noted = thread->boundary;
	thread->boundary = BOUNDARY_NONE;
	return noted == boundary ? NULL : thread;
}

#endif
