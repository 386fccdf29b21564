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
#include "syscall.h"
#include "thread_record.h"
#include "unseen.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct hard_irq_record);
} hard_irq_records SEC(".maps");

static __always_inline struct hard_irq_record *hard_irq_record_at(__u64 number)
{
	__u32 slot = number & options.hard_irq_records;

	return bpf_map_lookup_elem(&hard_irq_records, &slot);
}

/*
 * @handler is a struct irqaction, whose name is in the record; or the vector of an interrupt
 * that has none, x86's own, whose number is below all of these.
 */
static __always_inline __u64 new_hard_irq_record(struct thread_record *thread, __u64 handler)
{
	struct hard_irq_record *record;
	__u64 number;

	number = take_record(HARD_IRQ_RING, options.hard_irq_records, thread->epoch);
	if (!number)
		return 0;
	record = hard_irq_record_at(number);
	if (!record)
		return 0;
	clear(record, sizeof(*record));
	record->thread = thread->number;
	record->action = handler;
	record->next = thread->hard_irqs;
	if (handler >= IRQ_VECTORS)
		bpf_probe_read_kernel_str(record->name, sizeof(record->name),
					  BPF_CORE_READ((struct irqaction *)handler, name));
	record->number = number;
	thread->hard_irqs = number;
	return number;
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

/* A way through a thread's list of handlers. */
struct hard_irq_search {
	__u64 number; /* of the next record, or of the one that was found; 0: of none */
	__u64 handler;
};

/* As pass_owner(). */
__noinline int pass_hard_irq(struct hard_irq_search *search)
{
	struct hard_irq_record *record;

	if (!search || !search->number)
		return 1;
	record = hard_irq_record_at(search->number);
	if (!record || record->action == search->handler)
		return 1;
	search->number = record->next;
	return 0;
}

STEP(pass_hard_irq, struct hard_irq_search)

/* The number of the handler's record, 0 if there is no room. Not static, as take_record(). */
__noinline __u64 find_hard_irq(struct thread_record *thread, __u64 handler)
{
	struct hard_irq_search search = {.handler = handler};
	struct hard_irq_record *record;

	if (!thread)
		return 0;
	search.number = thread->hard_irqs;
	REPEAT(HARD_IRQS_PER_THREAD, pass_hard_irq, &search);
	record = search.number ? hard_irq_record_at(search.number) : NULL;
	if (!record || record->action != handler)
		return new_hard_irq_record(thread, handler);
	renew_hard_irq_record(record, thread);
	return search.number;
}

/*
 * @thread was in an interrupt when @timestamp's window began, and so when the one before ended,
 * as user space is reported: what of it lies there is charged nowhere else.
 */
static __always_inline bool is_across(const struct thread_record *record, __u64 since_ns,
				      const struct timestamp *timestamp)
{
	return options.accounting && !options.rounds && record && since_ns < timestamp->start_ns;
}

/*
 * A virtual machine's code: the thread of a virtual CPU runs it within ioctl(KVM_RUN), between two
 * tracepoints. AMD's KVM until 6.5, commit 791a089861fc, and arm64's (arch/arm64/kvm/arm.c:
 * kvm_arch_vcpu_ioctl_run(), 5.14 to 6.18) pass the second late: what ended it was served by then,
 * an interrupt or the loss of its CPU. So these end it as well.
 */

/* @thread is in a virtual machine until @stop_ns. Not static, as take_record(). */
__noinline int end_guest(struct thread *thread, const struct timestamp *timestamp, __u64 stop_ns)
{
	struct syscall_record *syscall;
	struct thread_record *record;
	struct timestamp until;
	__u64 since_ns, length_ns;

	if (!options.guests || !thread || !timestamp)
		return 0;
	until = *timestamp;
	until.now_ns = stop_ns;
	since_ns = thread->guest_since_ns;
	thread->guest_since_ns = 0;
	if (options.totals && thread->mode == MODE_SYSCALL)
		thread->totals.state_ns[MODE_SYSCALL][STATE_GUEST] +=
			total_since(thread, since_ns, stop_ns);
	length_ns = clip(&until, since_ns);
	if (!length_ns)
		return 0;
	record = find_or_make_record(thread, timestamp);
	if (!record || thread->mode != MODE_SYSCALL || thread->syscall == NO_SYSCALL)
		return 0;
	syscall = find_syscall_record(thread, thread->syscall);
	if (!syscall)
		return 0;
	record->account.state_ns[MODE_SYSCALL][STATE_GUEST] += length_ns;
	if (has_timeline())
		report_interrupt(thread, STATE_GUEST, 0, since_ns, &until);
	syscall->state_ns[STATE_GUEST] += length_ns;
	return 0;
}

static __always_inline void check_guest(struct thread *thread, const struct timestamp *timestamp,
					__u64 stop_ns)
{
	if (options.guests && thread->guest_since_ns)
		end_guest(thread, timestamp, stop_ns);
}

/* @handler may be a pointer, which is a number to the verifier once it was in memory. */
static __always_inline void enter_hard_irq(struct task_struct *task, __u64 handler)
{
	struct thread *thread = find_thread(task);

	if (!thread)
		return;
	thread->hard_irq_handler = handler;
	thread->hard_irq_since_ns = bpf_ktime_get_ns();
}

/* Charges @length_ns of a hard IRQ that ends now. Not static, as take_record(). */
__noinline int charge_hard_irq(struct thread *thread, struct thread_record *record,
			       const struct timestamp *timestamp, __u64 since_ns, __u64 length_ns)
{
	struct hard_irq_record *hard_irq;
	__u64 number;

	if (!thread || !timestamp)
		return 0;
	if (has_timeline())
		report_interrupt(thread, SLICE_HARD_IRQ, thread->hard_irq_handler, since_ns,
				 timestamp);
	if (!record) {
		if (options.rounds && thread->is_renewed) {
			thread->late_hard_irq_ns += length_ns;
			take_from_soft_irq(soft_irq_of(thread), timestamp, length_ns);
		}
		return 0;
	}
	if (is_across(record, since_ns, timestamp))
		record->account.first.hard_irq_since_ns = since_ns;
	if (options.accounting) {
		record->account.hard_irq_ns[thread->mode & (MODE_SLOTS - 1)] += length_ns;
		take_from_unsplit(thread, length_ns);
		take_from_soft_irq(soft_irq_of(thread), timestamp, length_ns);
	}
	if (!is_within(timestamp, since_ns))
		return 0;
	number = find_hard_irq(record, thread->hard_irq_handler);
	hard_irq = number ? hard_irq_record_at(number) : NULL;
	if (hard_irq)
		add_interval(&hard_irq->runs, length_ns);
	return 0;
}

static __always_inline void leave_hard_irq(struct task_struct *task)
{
	struct thread *thread = find_settled_thread(task);
	struct timestamp timestamp;
	__u64 since_ns, length_ns;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	since_ns = thread->hard_irq_since_ns;
	thread->hard_irq_since_ns = 0;
	check_guest(thread, &timestamp, since_ns ? since_ns : timestamp.now_ns);
	add_hard_irq_total(thread, since_ns, &timestamp);
	length_ns = since_ns ? clip(&timestamp, since_ns) : 0;
	if (!length_ns)
		return;
	thread->is_interrupted = 1;
	charge_hard_irq(thread, find_or_make_record(thread, &timestamp), &timestamp, since_ns,
			length_ns);
}

/* What is taken from it from now on, also before its start is noted, is in @lost_ns. */
static __always_inline void start_soft_irq(struct soft_irq *soft_irq)
{
	*(volatile __u64 *)&soft_irq->since_ns = STARTS_NOW;
	*(volatile __u64 *)&soft_irq->lost_ns = 0;
	if (options.totals)
		soft_irq->lost_total_ns = 0;
	*(volatile __u64 *)&soft_irq->since_ns = bpf_ktime_get_ns();
}

/*
 * Each step here is made for each packet that is sent through a veth: the fewest that do. Where a
 * hard IRQ came meanwhile it is not known on which side of the start: the soft one starts anew.
 */
static __always_inline void enter_soft_irq(struct task_struct *task)
{
	struct soft_irq *soft_irq = soft_irq_of_task(task);

	if (!soft_irq)
		return;
	soft_irq->task = (__u64)task;
	start_soft_irq(soft_irq);
	if (*(volatile __u64 *)&soft_irq->lost_ns)
		start_soft_irq(soft_irq);
}

static __always_inline void add_soft_irq(struct thread *thread, struct thread_record *record,
					 const struct soft_irq *soft_irq,
					 const struct timestamp *timestamp, __u64 length_ns)
{
	__u64 lost_ns = soft_irq->epoch == timestamp->epoch ? soft_irq->lost_ns : 0;

	if (!options.accounting || lost_ns >= length_ns)
		return;
	if (!record && options.rounds && thread->is_renewed)
		thread->late_soft_irq_ns += length_ns - lost_ns;
	else if (record) {
		record->account.soft_irq_ns[thread->mode & (MODE_SLOTS - 1)] += length_ns - lost_ns;
		take_from_unsplit(thread, length_ns - lost_ns);
	}
}

/* Charges the soft IRQ that began at @since_ns and ends now. Not static, as take_record(). */
__noinline int charge_soft_irq(struct thread *thread, struct thread_record *record,
			       const struct timestamp *timestamp, __u32 vector, __u64 since_ns)
{
	struct soft_irq *soft_irq;

	if (!thread || !timestamp)
		return 0;
	soft_irq = soft_irq_of(thread);
	if (!soft_irq)
		return 0;
	if (has_timeline())
		report_interrupt(thread, SLICE_SOFT_IRQ, vector, since_ns, timestamp);
	if (is_across(record, since_ns, timestamp)) {
		record->account.first.soft_irq_since_ns = since_ns;
		record->account.first.soft_irq_lost_ns = lost_before(soft_irq, timestamp->epoch);
	}
	add_soft_irq(thread, record, soft_irq, timestamp, clip(timestamp, since_ns));
	if (!record || !is_within(timestamp, since_ns))
		return 0;
	if (vector >= SOFT_IRQ_VECTORS) {
		count_up(&control.missed_soft_irqs);
		return 0;
	}
	/* The verifier forgets the test above; the compiler must not leave out this one. */
	barrier_var(vector);
	vector &= SOFT_IRQ_VECTORS - 1;
	add_interval(&record->soft_irqs[vector], length_since(timestamp->now_ns, since_ns));
	return 0;
}

/*
 * Returns when it ends, with all in @lost_ns that was taken from it until then. What comes between
 * the end and its being noted is no part of it.
 */
static __always_inline __u64 end_soft_irq(struct soft_irq *soft_irq)
{
	__u64 lost_ns, before_ns = *(volatile __u64 *)&soft_irq->lost_ns;
	__u64 now_ns = bpf_ktime_get_ns();

	lost_ns = *(volatile __u64 *)&soft_irq->lost_ns;
	if (lost_ns != before_ns)
		now_ns = bpf_ktime_get_ns();
	/* Not before: the time of a hard IRQ until now would be charged twice. */
	*(volatile __u64 *)&soft_irq->since_ns = 0;
	*(volatile __u64 *)&soft_irq->lost_ns = lost_ns;
	return now_ns;
}

static __always_inline void leave_soft_irq(struct task_struct *task, unsigned int vector)
{
	struct thread *thread = find_settled_thread(task);
	struct soft_irq *soft_irq;
	struct timestamp timestamp;
	__u64 since_ns;

	if (!thread)
		return;
	soft_irq = soft_irq_of(thread);
	if (!soft_irq)
		return;
	since_ns = soft_irq->task == thread->task ? soft_irq->since_ns : 0;
	if (!since_ns) {
		soft_irq->since_ns = 0;
		return;
	}
	take_timestamp_at(&timestamp, end_soft_irq(soft_irq));
	use_round(&timestamp, thread);
	check_guest(thread, &timestamp, since_ns);
	add_soft_irq_total(thread, soft_irq, since_ns, &timestamp);
	if (!clip(&timestamp, since_ns))
		return;
	thread->is_interrupted = 1;
	charge_soft_irq(thread, find_or_make_record(thread, &timestamp), &timestamp, vector,
			since_ns);
}

/*
 * Page faults of a thread's program: time in the kernel that no syscall
 * asked for. Faults within a syscall are that syscall's.
 */

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
	record = find_or_make_record(thread, &timestamp);
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
	enter_mode(thread, find_or_make_record(thread, &timestamp), MODE_USER, &timestamp);
}

/* The soft IRQ that the CPU of @task is at, which has it. NULL before Linux 5.19. */
static __always_inline struct soft_irq *soft_irq_where(struct task_struct *task,
						       struct thread *thread)
{
	__u32 only = 0;

	if (SOFT_IRQS_ARE_PREEMPTED)
		return &thread->soft_irq;
	if (!HAS_MAP_LOOKUP_PERCPU_ELEM)
		return NULL;
	return bpf_map_lookup_percpu_elem(&soft_irqs, &only, task_cpu(task));
}

#endif
