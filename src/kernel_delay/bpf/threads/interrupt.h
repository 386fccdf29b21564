/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Interrupts that are served on a thread's time. Hard and soft ones have a
 * start of their own each, as a hard one may come while a soft one is served;
 * neither kind nests in itself (kernel/irq/handle.c, kernel/softirq.c). A start
 * counts once, so that where one was missed no older one stands for it.
 */
#ifndef KERNEL_DELAY_INTERRUPT_H
#define KERNEL_DELAY_INTERRUPT_H

#include "accounting.h"
#include "soft_irq.h"
#include "thread_record.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hard_irq_record);
} hard_irq_records SEC(".maps");

static __always_inline struct hard_irq_record *hard_irq_record_at(__u64 number)
{
	__u32 slot = number & (options.hard_irq_records - 1);

	return bpf_map_lookup_elem(&hard_irq_records, &slot);
}

/*
 * @handler is a struct irqaction, whose name is in the record; or the vector of an interrupt
 * that has none, x86's own, whose number is below all of these.
 */
static __noinline struct hard_irq_record *new_hard_irq_record(struct thread_record *thread,
							      __u64 handler)
{
	struct hard_irq_record *record;
	__u64 number;

	number = take_record(HARD_IRQ_RING, options.hard_irq_records, thread->epoch);
	if (!number)
		return NULL;
	record = hard_irq_record_at(number);
	if (!record)
		return NULL;
	__builtin_memset(record, 0, sizeof(*record));
	record->thread = thread->number;
	record->action = handler;
	record->next = thread->hard_irqs;
	if (handler >= IRQ_VECTORS)
		bpf_probe_read_kernel_str(record->name, sizeof(record->name),
					  BPF_CORE_READ((struct irqaction *)handler, name));
	record->number = number;
	thread->hard_irqs = number;
	return record;
}

/* The handler's record of an earlier round counts from now on in this one. */
static __always_inline void renew_hard_irq_record(struct hard_irq_record *record,
						  const struct thread_record *thread)
{
	if (!is_of_earlier_round(record->thread, thread->number))
		return;
	__builtin_memset(&record->runs, 0, sizeof(record->runs));
	record->thread = thread->number;
}

static __always_inline struct hard_irq_record *find_hard_irq_record(struct thread_record *thread,
								    __u64 handler)
{
	struct hard_irq_record *record;
	__u64 number = thread->hard_irqs;

	for (int i = 0; i < HARD_IRQS_PER_THREAD && number; i++) {
		record = hard_irq_record_at(number);
		if (!record)
			return NULL;
		if (record->action == handler) {
			renew_hard_irq_record(record, thread);
			return record;
		}
		number = record->next;
	}
	return new_hard_irq_record(thread, handler);
}

/*
 * @thread was in an interrupt when @timestamp's window began, and so when the one before ended,
 * as user space is told: what of it lies there is charged nowhere else.
 */
static __always_inline bool is_across(const struct thread_record *record, __u64 since_ns,
				      const struct timestamp *timestamp)
{
	return options.accounting && !options.rounds && record && since_ns < timestamp->start_ns;
}

static __always_inline void enter_hard_irq(struct task_struct *task)
{
	struct thread *thread = find_thread(task);

	if (thread)
		thread->hard_irq_since_ns = bpf_ktime_get_ns();
}

static __always_inline void leave_hard_irq(struct task_struct *task, __u64 handler)
{
	struct thread *thread = find_thread(task);
	struct hard_irq_record *hard_irq;
	struct thread_record *record;
	struct timestamp timestamp;
	__u64 since_ns, length_ns;
	__u32 what = handler;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	since_ns = thread->hard_irq_since_ns;
	thread->hard_irq_since_ns = 0;
	add_hard_irq_total(thread, soft_irq_of(thread), since_ns, &timestamp);
	length_ns = since_ns ? clip(&timestamp, since_ns) : 0;
	if (!length_ns)
		return;
	thread->is_interrupted = 1;
	/* Half of it is a number; the whole, which is in the same register, may be a pointer. */
	barrier_var(what);
	if (has_timeline())
		tell_interrupt(thread, SLICE_HARD_IRQ, what, since_ns, &timestamp);
	record = find_record(thread, task, &timestamp);
	if (!record) {
		if (options.rounds && thread->is_renewed) {
			thread->late_hard_irq_ns += length_ns;
			take_from_soft_irq(soft_irq_of(thread), &timestamp, length_ns);
		}
		return;
	}
	if (is_across(record, since_ns, &timestamp))
		record->account.first.hard_irq_since_ns = since_ns;
	if (options.accounting) {
		record->account.hard_irq_ns[thread->mode & (MODE_SLOTS - 1)] += length_ns;
		take_from_soft_irq(soft_irq_of(thread), &timestamp, length_ns);
	}
	if (!is_within(&timestamp, since_ns))
		return;
	hard_irq = find_hard_irq_record(record, handler);
	if (hard_irq)
		add_interval(&hard_irq->runs, length_ns);
}

/* Each step here is made for each packet that is sent through a veth: the fewest that do. */
static __always_inline void enter_soft_irq(struct task_struct *task)
{
	struct soft_irq *soft_irq = soft_irq_of_task(task);

	if (!soft_irq)
		return;
	soft_irq->task = (__u64)task;
	soft_irq->lost_ns = 0;
	if (options.totals)
		soft_irq->lost_total_ns = 0;
	soft_irq->since_ns = bpf_ktime_get_ns();
}

static __always_inline void charge_soft_irq(struct thread *thread, struct thread_record *record,
					    const struct soft_irq *soft_irq,
					    const struct timestamp *timestamp, __u64 length_ns)
{
	__u64 lost_ns = soft_irq->epoch == timestamp->epoch ? soft_irq->lost_ns : 0;

	if (!options.accounting || lost_ns >= length_ns)
		return;
	if (!record && options.rounds && thread->is_renewed)
		thread->late_soft_irq_ns += length_ns - lost_ns;
	else if (record)
		record->account.soft_irq_ns[thread->mode & (MODE_SLOTS - 1)] += length_ns - lost_ns;
}

static __always_inline void leave_soft_irq(struct task_struct *task, unsigned int vector)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct soft_irq *soft_irq;
	struct timestamp timestamp;
	__u64 since_ns, length_ns;

	if (!thread)
		return;
	soft_irq = soft_irq_of(thread);
	if (!soft_irq)
		return;
	since_ns = soft_irq->task == (__u64)task ? soft_irq->since_ns : 0;
	soft_irq->since_ns = 0;
	if (!since_ns)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	add_soft_irq_total(thread, soft_irq, since_ns, &timestamp);
	length_ns = clip(&timestamp, since_ns);
	if (!length_ns)
		return;
	thread->is_interrupted = 1;
	if (has_timeline())
		tell_interrupt(thread, SLICE_SOFT_IRQ, vector, since_ns, &timestamp);
	record = find_record(thread, task, &timestamp);
	if (is_across(record, since_ns, &timestamp)) {
		record->account.first.soft_irq_since_ns = since_ns;
		record->account.first.soft_irq_lost_ns = lost_before(soft_irq, timestamp.epoch);
	}
	charge_soft_irq(thread, record, soft_irq, &timestamp, length_ns);
	if (!record || !is_within(&timestamp, since_ns))
		return;
	if (vector >= SOFT_IRQ_VECTORS) {
		count_up(&control.missed_events);
		return;
	}
	/* The verifier forgets the test above; the compiler must not leave out this one. */
	barrier_var(vector);
	vector &= SOFT_IRQ_VECTORS - 1;
	add_interval(&record->soft_irqs[vector], length_ns);
}

#endif
