/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The soft IRQ that is served now, and what lies in it that is not its own.
 *
 * One has its CPU until it ends, so it is noted by the CPU: its entry need not
 * look for the thread. With PREEMPT_RT it can be preempted, and is noted by the
 * thread whose time it is served on.
 */
#ifndef KERNEL_DELAY_SOFT_IRQ_H
#define KERNEL_DELAY_SOFT_IRQ_H

#include "thread.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct soft_irq);
} soft_irqs SEC(".maps");

static __always_inline struct soft_irq *soft_irq_of_cpu(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&soft_irqs, &only);
}

/* That of the current task, which may not have been registered. */
static __always_inline struct soft_irq *soft_irq_of_task(struct task_struct *task)
{
	struct thread *thread;

	if (!SOFT_IRQS_ARE_PREEMPTED)
		return soft_irq_of_cpu();
	thread = find_thread(task);
	return thread ? &thread->soft_irq : NULL;
}

/* That of the current thread. */
static __always_inline struct soft_irq *soft_irq_of(struct thread *thread)
{
	return SOFT_IRQS_ARE_PREEMPTED ? &thread->soft_irq : soft_irq_of_cpu();
}

/* @length_ns of @timestamp's window, which end now, are not @soft_irq's own. */
static __always_inline void take_from_soft_irq(struct soft_irq *soft_irq,
					       const struct timestamp *timestamp, __u64 length_ns)
{
	if (!soft_irq || !soft_irq->since_ns)
		return;
	if (soft_irq->epoch != timestamp->epoch) {
		soft_irq->lost_before_ns = soft_irq->lost_ns;
		soft_irq->lost_ns = 0;
	}
	soft_irq->epoch = timestamp->epoch;
	soft_irq->lost_ns += length_ns;
}

/* What lies in @soft_irq and in the window before @epoch's, and is not its own. */
static __always_inline __u64 lost_before(const struct soft_irq *soft_irq, __u64 epoch)
{
	return soft_irq->epoch == epoch ? soft_irq->lost_before_ns : soft_irq->lost_ns;
}

/* The same of time off the CPU that @thread spent; its soft IRQ is elsewhere noted by the CPU. */
static __always_inline void take_off_cpu_from_soft_irq(struct thread *thread,
						       const struct timestamp *timestamp,
						       __u64 length_ns)
{
	if (SOFT_IRQS_ARE_PREEMPTED)
		take_from_soft_irq(&thread->soft_irq, timestamp, length_ns);
}

#endif
