/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * In which context a waker is: a thread's own, or an interrupt's.
 */
#ifndef KERNEL_DELAY_CONTEXTS_H
#define KERNEL_DELAY_CONTEXTS_H

#include "kernel.h"
#include "thread_records.h"
#include "window.h"

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* That is known as the programs are loaded: no branch, as there is where a pointer is looked at. */
static __always_inline bool has_run_queues(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->se.cfs_rq);
}

/*
 * The kernel's own that @task is in, or would be, whatever its policy; NULL
 * without CONFIG_FAIR_GROUP_SCHED (kernel/sched/sched.h:set_task_rq(), 5.14 to
 * 6.18). A switch changes it before its tracepoint, and keeps its lock till after.
 *
 * Once a program, and before its ways part: wherever the verifier comes by a pointer that is read
 * from what it trusts, it goes through all of the kernel's types by name, up to four times, which
 * takes 1 ms (kernel/bpf/btf.c:btf_nested_type_is_trusted(), 6.4 to 6.18).
 */
static __always_inline struct rq *kernel_run_queue(struct task_struct *task)
{
	return has_run_queues() ? task->se.cfs_rq->rq : NULL;
}

/* include/linux/preempt.h, the same from 5.14 to 6.18: what of it counts which context. */
#define SERVING_SOFT_IRQ 0x00000100
#define HARD_IRQS_AND_NMI 0x00ff0000

#if defined(__TARGET_ARCH_x86)
/*
 * The variable that counts the contexts which a CPU is in. The kernel's symbols may have
 * no data: it is found by how far it is behind the CPU's run queue.
 */
static __always_inline bool read_contexts(struct task_struct *current, __u32 *contexts)
{
	struct rq *rq = kernel_run_queue(current);
	void *address = (void *)rq + options.contexts_distance;

	if (!has_run_queues() || !options.contexts_distance ||
	    (__u32)rq->cpu != bpf_get_smp_processor_id())
		return false;
	return !bpf_probe_read_kernel(contexts, sizeof(*contexts), address);
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline bool read_contexts(struct task_struct *current, __u32 *contexts)
{
	*contexts = current->thread_info.preempt_count;
	return true;
}
#endif

/*
 * Is there a signal for @task? Who sends one wakes it, and has no part in what it waits for;
 * kernel/signal.c:complete_signal().
 */
static __always_inline bool has_signal(struct task_struct *task)
{
	__u64 pending = task->pending.signal.sig[0];

	pending |= task->signal->shared_pending.signal.sig[0];
	return pending & ~task->blocked.sig[0];
}

static __always_inline enum waker_kind waker_kind(bool is_signal, struct task_struct *current)
{
	__u32 contexts = 0;

	if (is_signal || !read_contexts(current, &contexts))
		return WAKER_UNKNOWN;
	if (contexts & HARD_IRQS_AND_NMI)
		return WAKER_HARD_IRQ;
	if (contexts & SERVING_SOFT_IRQ)
		return WAKER_SOFT_IRQ;
	/* The idle task only ever does what an interrupt of another CPU asked it for. */
	return current->pid ? WAKER_THREAD : WAKER_HARD_IRQ;
}

#endif
