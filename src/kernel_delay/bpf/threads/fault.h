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
	struct thread *thread = find_settled_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;

	if (!thread || thread->mode == MODE_SYSCALL)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	check_running(thread, &timestamp);
	record = find_record(thread, &timestamp);
	enter_mode(thread, record, MODE_FAULT, &timestamp);
	if (record && timestamp.now_ns >= timestamp.start_ns &&
	    timestamp.now_ns < timestamp.stop_ns)
		record->account.faults++;
}

static __always_inline void leave_fault(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct timestamp timestamp;

	if (!thread || thread->mode != MODE_FAULT)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	check_running(thread, &timestamp);
	enter_mode(thread, find_record(thread, &timestamp), MODE_USER, &timestamp);
}

#endif
