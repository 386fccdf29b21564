/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Page faults of a thread's program: time in the kernel that no syscall
 * asked for. Faults within a syscall are that syscall's.
 */
#ifndef KERNEL_DELAY_FAULT_H
#define KERNEL_DELAY_FAULT_H

#include "state.h"

static __always_inline void enter_fault(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct moment moment;

	if (!thread || thread->mode == MODE_SYSCALL)
		return;
	take_moment(&moment);
	check_running(thread, task, &moment);
	record = find_record(thread, task, &moment);
	/* A thread whose first event this is may turn out to be in a syscall. */
	if (thread->mode == MODE_SYSCALL)
		return;
	enter_mode(thread, record, MODE_FAULT, &moment);
	if (record && moment.now_ns >= moment.start_ns && moment.now_ns < moment.stop_ns)
		record->account.faults++;
}

static __always_inline void leave_fault(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct moment moment;

	if (!thread || thread->mode != MODE_FAULT)
		return;
	take_moment(&moment);
	check_running(thread, task, &moment);
	enter_mode(thread, find_record(thread, task, &moment), MODE_USER, &moment);
}

#endif
