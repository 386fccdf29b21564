/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Which processes are measured.
 */
#ifndef KERNEL_DELAY_TARGET_H
#define KERNEL_DELAY_TARGET_H

#include "kernel.h"
#include "thread_records.h"
#include "window.h"

/*
 * The targets where they are several, or come and go: a bit for each number that a process can
 * have. To find one takes no search and no call, so that many cost no more than two. User space
 * sets those that are there at first.
 */
__u64 targets[TARGET_WORDS];

static __always_inline __u64 *target_word(__u32 tgid)
{
	return &targets[tgid / 64 & (TARGET_WORDS - 1)];
}

static __always_inline bool is_target(const struct task_struct *task)
{
	__u32 tgid = task->tgid;

	/* A constant to the verifier: with one target there is nothing below this. */
	if (options.tgid)
		return tgid == options.tgid;
	return *target_word(tgid) >> (tgid % 64) & 1;
}

static __always_inline void add_target(__u32 tgid)
{
	__sync_fetch_and_or(target_word(tgid), 1ull << (tgid % 64));
}

/* The number may be another process's from now on. */
static __always_inline void remove_target(__u32 tgid)
{
	__sync_fetch_and_and(target_word(tgid), ~(1ull << (tgid % 64)));
}

static __always_inline bool is_process(const struct task_struct *task)
{
	return task->pid == task->tgid;
}

#endif
