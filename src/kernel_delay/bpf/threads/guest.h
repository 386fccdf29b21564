/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A virtual machine's code: the thread of a virtual CPU runs it within
 * ioctl(KVM_RUN), between these two tracepoints of KVM's, which it passes with
 * interrupts off (arch/x86/kvm/x86.c:vcpu_enter_guest() and
 * arch/arm64/kvm/arm.c:kvm_arch_vcpu_ioctl_run(), 5.14 to 6.18). So it can't
 * leave its CPU in between.
 */
#ifndef KERNEL_DELAY_GUEST_H
#define KERNEL_DELAY_GUEST_H

#include "syscall.h"

static __always_inline void enter_guest(struct task_struct *task)
{
	struct thread *thread = find_thread(task);

	if (thread)
		thread->guest_since_ns = bpf_ktime_get_ns();
}

static __always_inline void leave_guest(struct task_struct *task)
{
	struct thread *thread = find_settled_thread(task);
	struct syscall_record *syscall = NULL;
	struct thread_record *record;
	__u64 since_ns, length_ns;
	struct timestamp timestamp;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	since_ns = thread->guest_since_ns;
	thread->guest_since_ns = 0;
	if (options.totals && since_ns && thread->mode == MODE_SYSCALL)
		thread->totals.state_ns[MODE_SYSCALL][STATE_GUEST] +=
			total_since(thread, since_ns, timestamp.now_ns);
	length_ns = since_ns ? clip(&timestamp, since_ns) : 0;
	if (!length_ns)
		return;
	record = find_record(thread, &timestamp);
	if (!record || thread->mode != MODE_SYSCALL || thread->syscall == NO_SYSCALL)
		return;
	syscall = find_syscall_record(thread, thread->syscall);
	if (!syscall)
		return;
	record->account.state_ns[MODE_SYSCALL][STATE_GUEST] += length_ns;
	if (has_timeline())
		report_interrupt(thread, STATE_GUEST, 0, since_ns, &timestamp);
	syscall->state_ns[STATE_GUEST] += length_ns;
}

#endif
