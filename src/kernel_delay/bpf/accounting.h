/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where all of a window went. Each interval of a thread's time, clipped to
 * the window, is charged when it ends; what is still going on at the window's
 * end user space adds, from the thread's state.
 *
 * The intervals of modes follow one on the other without a gap, those of
 * states too, and each kind has one writer. So what is charged to modes sums
 * up to the window exactly, whatever interrupts what.
 */
#ifndef KERNEL_DELAY_ACCOUNTING_H
#define KERNEL_DELAY_ACCOUNTING_H

#include "timeline.h"

/*
 * Where all of each thread's time went, whatever its rounds: what is charged to a thread's
 * record within a round, is charged to its totals whole. Only with options.totals.
 */

/* User space reads these, and sets the sizes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ended_totals SEC(".maps");

/* options.cpus times SYSCALL_TOTALS. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_totals);
} syscall_totals SEC(".maps");

/* How much of what began at @since_ns and ends now came since @thread was registered. */
static __always_inline __u64 total_since(const struct thread *thread, __u64 since_ns, __u64 now_ns)
{
	__u64 from_ns = since_ns > thread->totals.since_ns ? since_ns : thread->totals.since_ns;

	return length_since(now_ns, from_ns);
}

static __always_inline void add_mode_total(struct thread *thread, const struct timestamp *timestamp)
{
	if (options.totals)
		thread->totals.mode_ns[thread->mode & (MODE_SLOTS - 1)] +=
			total_since(thread, thread->mode_since_ns, timestamp->now_ns);
}

static __always_inline void add_state_total(struct thread *thread, __u32 state, __u64 since_ns,
					    const struct timestamp *timestamp)
{
	__u64 length_ns;

	if (!options.totals)
		return;
	length_ns = total_since(thread, since_ns, timestamp->now_ns);
	if (state == STATE_NOT_ALIVE) {
		thread->totals.not_alive_ns += length_ns;
		return;
	}
	thread->totals.state_ns[thread->mode & (MODE_SLOTS - 1)][state & (STATE_SLOTS - 1)] +=
		length_ns;
	if (SOFT_IRQS_ARE_PREEMPTED && thread->soft_irq.since_ns)
		thread->soft_irq.lost_total_ns += length_ns;
}

/*
 * @thread leaves its call. Not static, as take_record(): Linux before 6.8 verifies it although
 * nothing calls it, and so it asks for the option too.
 */
__noinline int add_call_total(struct thread *thread, const struct timestamp *timestamp)
{
	__u32 cpu, slot = OTHER_SYSCALLS;
	struct syscall_totals *totals;

	if (!options.totals || !thread || !timestamp || thread->syscall == NO_SYSCALL)
		return 0;
	cpu = bpf_get_smp_processor_id();
	if (is_flagged(thread->syscall))
		slot = syscall_slot(thread->syscall);
	slot += cpu * SYSCALL_TOTALS;
	totals = bpf_map_lookup_elem(&syscall_totals, &slot);
	if (!totals)
		return 0;
	totals->calls++;
	totals->total_ns += total_since(thread, thread->mode_since_ns, timestamp->now_ns);
	return 0;
}

static __always_inline void add_hard_irq_total(struct thread *thread, __u64 since_ns,
					       const struct timestamp *timestamp)
{
	struct soft_irq *soft_irq;
	__u64 length_ns;

	if (!options.totals || !since_ns)
		return;
	soft_irq = soft_irq_of(thread);
	length_ns = total_since(thread, since_ns, timestamp->now_ns);
	thread->totals.hard_irq_ns[thread->mode & (MODE_SLOTS - 1)] += length_ns;
	if (soft_irq && soft_irq->since_ns)
		soft_irq->lost_total_ns += length_ns;
}

static __always_inline void add_soft_irq_total(struct thread *thread,
					       const struct soft_irq *soft_irq, __u64 since_ns,
					       const struct timestamp *timestamp)
{
	__u64 length_ns;

	if (!options.totals)
		return;
	length_ns = total_since(thread, since_ns, timestamp->now_ns);
	if (soft_irq->lost_total_ns < length_ns)
		thread->totals.soft_irq_ns[thread->mode & (MODE_SLOTS - 1)] +=
			length_ns - soft_irq->lost_total_ns;
}

/* @thread leaves its CPU for the last time: reports its totals. Not static, see report_round(). */
__noinline int end_totals(struct thread *thread, const struct timestamp *timestamp)
{
	struct reported_totals *reported;

	if (!options.totals || !thread || !timestamp || !thread->totals.since_ns ||
	    thread->totals.exit_ns)
		return 0;
	add_mode_total(thread, timestamp);
	thread->totals.exit_ns = timestamp->now_ns;
	reported = bpf_ringbuf_reserve(&ended_totals, sizeof(*reported), 0);
	if (!reported) {
		count_up(&control.missed_totals);
		return 0;
	}
	__builtin_memset(&reported->head, 0, sizeof(reported->head));
	reported->head.identity = thread->identity;
	reported->head.now_ns = timestamp->now_ns;
	reported->head.tid = thread->tid;
	reported->head.kernel_worker = is_kernel_worker(bpf_get_current_task_btf());
	bpf_get_current_comm(reported->head.comm, sizeof(reported->head.comm));
	bpf_probe_read_kernel(&reported->totals, sizeof(reported->totals), &thread->totals);
	reported->state_changes = 0;
	bpf_ringbuf_submit(reported, BPF_RB_NO_WAKEUP);
	return 0;
}

/* How much of what began at @since_ns and ends now is in the window. */
static __always_inline __u64 clip(const struct timestamp *timestamp, __u64 since_ns)
{
	__u64 from_ns = since_ns > timestamp->start_ns ? since_ns : timestamp->start_ns;
	__u64 to_ns =
		timestamp->now_ns < timestamp->stop_ns ? timestamp->now_ns : timestamp->stop_ns;

	return length_since(to_ns, from_ns);
}

static __always_inline void count_length(struct histogram *histogram,
					 const struct timestamp *timestamp, __u64 since_ns)
{
	__u32 bucket;

	if (!options.accounting)
		return;
	bucket = log2_of(length_since(timestamp->now_ns, since_ns));
	barrier_var(bucket);
	histogram->counts[bucket & (HISTOGRAM_BUCKETS - 1)]++;
}

/* Charges the time in the mode that @thread is leaving, or dying in. */
static __always_inline void charge_mode(const struct thread *thread, struct thread_record *record,
					const struct timestamp *timestamp)
{
	if (options.accounting && record)
		record->account.mode_ns[thread->mode & (MODE_SLOTS - 1)] +=
			clip(timestamp, thread->mode_since_ns);
}

/* @thread enters @mode; an end of the one before may have been @missed. */
static __always_inline void change_mode(struct thread *thread, struct thread_record *record,
					enum execution_context mode, bool missed,
					const struct timestamp *timestamp)
{
	charge_mode(thread, record, timestamp);
	add_mode_total(thread, timestamp);
	if (has_timeline())
		report_mode(thread, missed, timestamp);
	thread->mode = mode;
	thread->ran_ns = 0;
	if (options.totals)
		thread->ran_total_ns = 0;
	/* The clock of another CPU can be some ns behind (kernel/time/timekeeping.c). */
	if (timestamp->now_ns > thread->mode_since_ns)
		thread->mode_since_ns = timestamp->now_ns;
}

static __always_inline void enter_mode(struct thread *thread, struct thread_record *record,
				       enum execution_context mode,
				       const struct timestamp *timestamp)
{
	change_mode(thread, record, mode, is_missed_between(thread->mode, mode), timestamp);
}

/* What another has of @thread's time in its program is no call's; see polls.h. */
static __always_inline void take_from_unsplit(struct thread *thread, __u64 length_ns)
{
	/* A sample may come at any time. */
	if (options.polls_only)
		__sync_fetch_and_add(&thread->unsplit_ns, -length_ns);
}

/* What interrupts have of the time of @thread in its program. Not static, as take_record(). */
__noinline __u64 interrupted_ns(struct thread *thread, const struct timestamp *timestamp)
{
	const struct thread_record *record;

	if (!reports_events() || !thread || !timestamp)
		return 0;
	record = find_or_make_record(thread, timestamp);
	if (!record)
		return 0;
	return record->account.hard_irq_ns[MODE_USER] + record->account.soft_irq_ns[MODE_USER];
}

/* Charges the tool with what is from @since_ns until now, without @interrupts_ns. As above. */
__noinline int charge_tool(struct thread *thread, const struct timestamp *timestamp, __u64 since_ns,
			   __u64 interrupts_ns)
{
	struct thread_record *record;
	__u64 length_ns;

	if (!reports_events() || !thread || !timestamp)
		return 0;
	record = find_or_make_record(thread, timestamp);
	length_ns = clip(timestamp, since_ns);
	if (!record || length_ns <= interrupts_ns)
		return 0;
	record->account.tool_ns += length_ns - interrupts_ns;
	take_from_unsplit(thread, length_ns - interrupts_ns);
	return 0;
}

/*
 * A thread's records of its system calls, one for each.
 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_record);
} syscall_records SEC(".maps");

/* Calls whose slot in struct thread has another. */
struct rare_syscall {
	__u64 thread;
	__u64 syscall;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct rare_syscall);
	__type(value, __u32);
} rare_syscall_records SEC(".maps");

static __always_inline struct syscall_record *syscall_record_at(__u32 slot)
{
	slot &= options.syscall_records;
	return bpf_map_lookup_elem(&syscall_records, &slot);
}

/*
 * The slot of a call in struct thread. Of the two ABIs those that are used most don't meet. Without
 * a branch, as length_since().
 */
static __always_inline __u32 *direct_slot(struct thread *thread, __u64 syscall)
{
	__u32 slot = syscall + syscall / COMPAT_SYSCALL * (DIRECT_SYSCALLS / 2);

	return &thread->syscall_records[slot & (DIRECT_SYSCALLS - 1)];
}

static __always_inline void begin_syscall_record(struct syscall_record *record,
						 const struct thread *thread, __u64 syscall)
{
	clear(record, sizeof(*record));
	record->thread = thread->record;
	record->syscall = syscall;
}

/* Has a record of an earlier round for a call of this one. */
static __always_inline void renew_syscall_record(struct syscall_record *record,
						 const struct thread *thread, __u64 syscall)
{
	__u64 number = record->number;

	begin_syscall_record(record, thread, syscall);
	record->number = number;
}

/* With rounds a call keeps its slot in the next ones. */
static __always_inline __u64 rare_owner(const struct thread *thread)
{
	return options.rounds ? thread->record & (ROUND_SLOTS - 1) : thread->record;
}

/* The number of a new record, 0 if there is no room. Not static, as take_record(). */
__noinline __u64 new_syscall_record(struct thread *thread, __u64 syscall)
{
	struct syscall_record *record, *other;
	__u32 *direct;
	bool taken;
	__u64 number;
	__u32 slot;

	if (!thread)
		return 0;
	direct = direct_slot(thread, syscall);
	number = take_record(SYSCALL_RING, options.syscall_records, thread->epoch);
	if (!number)
		return 0;
	record = syscall_record_at(number);
	if (!record)
		return 0;
	other = syscall_record_at(*direct);
	taken = other && other != record && other->thread == thread->record;
	begin_syscall_record(record, thread, syscall);
	record->number = number;
	slot = number & options.syscall_records;
	if (taken) {
		struct rare_syscall key = {rare_owner(thread), syscall};

		bpf_map_update_elem(&rare_syscall_records, &key, &slot, BPF_ANY);
	} else {
		*direct = slot;
	}
	return number;
}

static __always_inline struct syscall_record *find_rare_syscall_record(struct thread *thread,
								       __u64 syscall)
{
	struct rare_syscall key = {rare_owner(thread), syscall};
	__u32 *slot = bpf_map_lookup_elem(&rare_syscall_records, &key);
	struct syscall_record *record = NULL;

	if (slot)
		record = syscall_record_at(*slot);
	if (record && is_of_earlier_round(record->thread, thread->record) &&
	    record->syscall == syscall)
		renew_syscall_record(record, thread, syscall);
	if (record && record->thread == thread->record && record->syscall == syscall)
		return record;
	return NULL;
}

/*
 * The number of a record that is not the one at the call's direct slot, or 0 if there was
 * no room. Not static, so that it is verified once, by itself.
 */
__noinline __u64 find_other_syscall_record(struct thread *thread, __u64 syscall)
{
	struct syscall_record *record;

	if (!thread)
		return 0;
	record = syscall_record_at(*direct_slot(thread, syscall));
	if (record && is_of_earlier_round(record->thread, thread->record))
		renew_syscall_record(record, thread, syscall);
	else if (record && record->thread == thread->record)
		record = find_rare_syscall_record(thread, syscall);
	else
		record = NULL;
	return record ? record->number : new_syscall_record(thread, syscall);
}

/* The record of a syscall of @thread, or NULL if there was no room. */
static __always_inline struct syscall_record *find_syscall_record(struct thread *thread,
								  __u64 syscall)
{
	struct syscall_record *record;
	__u64 number;

	if (!thread->record)
		return NULL;
	record = syscall_record_at(*direct_slot(thread, syscall));
	if (record && !((record->thread ^ thread->record) | (record->syscall ^ syscall)))
		return record;
	number = find_other_syscall_record(thread, syscall);
	return number ? syscall_record_at(number) : NULL;
}

#endif
