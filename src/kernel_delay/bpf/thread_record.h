/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A thread's record in the current epoch, or of its round.
 */
#ifndef KERNEL_DELAY_THREAD_RECORD_H
#define KERNEL_DELAY_THREAD_RECORD_H

#include "thread.h"
#include "window.h"

/*
 * Where a new record goes: behind the newest of its ring, or where the record
 * of a thread that ended was. capture/threads/ is the other side.
 */

/* Wakes user space, which finds what happened in struct control. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} notices SEC(".maps");

static __always_inline void notify(void)
{
	__u64 notice = 0;

	/* If it is full, user space has not yet read that it is to look. */
	bpf_ringbuf_output(&notices, &notice, sizeof(notice), 0);
}

/* User space writes these, and sets the size: options.freed_slots of each ring. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} freed_slots SEC(".maps");

/* A number for what is the @taken-th of a list, and ends in that of its slot. */
#define FREED_NUMBER(taken, slot) (1ULL << 62 | ((taken)&0x3fffffff) << 32 | (slot))

static const volatile struct thread_record zeros SEC(".rodata.zeros");

/* A record is too large for memset(): the verifier would follow each word that is written. */
static __always_inline void clear(void *record, __u32 size)
{
	bpf_probe_read_kernel(record, size, (const void *)&zeros);
}

/* How often it is tried to be the one that takes the next slot. */
#define TRIES_TO_TAKE 2

static __always_inline __u64 take_freed(struct ring_position *ring, __u32 index, __u64 epoch)
{
	__u64 taken, found, *slot, freed;
	__u32 key;

	/* With rounds the slots are for any. */
	if (!options.rounds && *(volatile __u64 *)&ring->freed_epoch != epoch)
		return 0;
	for (int i = 0; i < TRIES_TO_TAKE; i++) {
		taken = *(volatile __u64 *)&ring->freed_taken;
		if (taken >= *(volatile __u64 *)&ring->freed)
			return 0;
		key = index * options.freed_slots + (taken & (options.freed_slots - 1));
		slot = bpf_map_lookup_elem(&freed_slots, &key);
		if (!slot)
			return 0;
		/* Read before it is taken: after that user space may write another one there. */
		freed = *(volatile __u64 *)slot;
		found = __sync_val_compare_and_swap(&ring->freed_taken, taken, taken + 1);
		barrier_var(found);
		if (found != taken)
			continue;
		if (taken + 1 == ring->notice_freed)
			notify();
		return FREED_NUMBER(taken, freed);
	}
	return 0;
}

/*
 * The number of a new record of @epoch in the ring of that @index and @last slot, or
 * 0 when user space has to read first. Not static, so that it is verified once, by itself, and
 * not on each way to it.
 */
__noinline __u64 take_record(__u32 index, __u32 last, __u64 epoch)
{
	struct ring_position *ring = &control.rings[index & (RING_SLOTS - 1)];
	__u64 number;

	/* Once, and not again behind each branch, as the compiler would have it. */
	barrier_var(ring);
	number = take_freed(ring, index & (RING_SLOTS - 1), epoch);
	if (number)
		return number;
	if (*(volatile __u64 *)&ring->head - ring->tail > last)
		goto full;
	number = __sync_fetch_and_add(&ring->head, 1) + 1;
	if (number == ring->notice_head)
		notify();
	/* Programs on other CPUs may have taken the last slots since the test. */
	if (number - ring->tail - 1 <= last)
		return number;
full:
	count_up(&ring->full);
	return 0;
}

/* User space sets the size, and reads it through mmap(2), as the other records. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct thread_record);
} thread_records SEC(".maps");

/* All of @dumped is 0 before. Those that notice an interrupt say so. */
static __always_inline void note_thread_state(struct thread_state *dumped,
					      const struct thread *thread)
{
	dumped->state_changes = *(const volatile __u64 *)&thread->state_changes;
	barrier();
	dumped->epoch = thread->epoch;
	dumped->syscall = thread->syscall;
	dumped->mode_since_ns = thread->mode_since_ns;
	dumped->state_since_ns = thread->since_ns;
	dumped->ready_since_ns = thread->ready_since_ns;
	dumped->first_slice = thread->first_slice;
	dumped->wait_cpu = thread->wait_cpu;
	dumped->lock = thread->lock;
	dumped->futex_owner = thread->futex_owner;
	dumped->mode = thread->mode;
	dumped->state = thread->state;
	dumped->group = thread->group;
	/* The rest is 0. */
	if (thread->sleep_since_ns != thread->since_ns)
		return;
	dumped->sleep_stack = thread->sleep_stack;
	dumped->uninterruptible = thread->uninterruptible;
	dumped->sleep_file = thread->sleep_key.file;
}

/* From here on a struct thread_record has what is counted. */
#define COUNTED __builtin_offsetof(struct thread_record, long_poll)

static __always_inline __u64 next_number(__u64 number, __u32 slot)
{
	return (number / ROUND_SLOTS + 1) * ROUND_SLOTS + slot;
}

/* Is what has the number @owner of a thread_record of an earlier round than that of @number? */
static __always_inline bool is_of_earlier_round(__u64 owner, __u64 number)
{
	return options.rounds && owner && owner != number &&
	       !((owner ^ number) & (ROUND_SLOTS - 1));
}

/*
 * 0 is no record's number. Without a branch, of which the verifier would follow both ways to the
 * program's end, its slot is one that the map has not.
 */
static __always_inline struct thread_record *thread_record_at(__u64 number)
{
	__u64 is_none = (number - 1) >> 63;
	__u32 slot;

	barrier_var(is_none);
	slot = (number & options.thread_records) | is_none << 31;
	return bpf_map_lookup_elem(&thread_records, &slot);
}

/*
 * Has the thread's record for its next round. In most rounds there are only its program and
 * calls, and little is to be cleared.
 */
static __always_inline struct thread_record *renew_record(struct thread *thread, __u64 epoch)
{
	struct thread_record *record = thread_record_at(thread->record);
	__u64 number;

	if (!record)
		return NULL;
	number = next_number(thread->record, thread->record & (ROUND_SLOTS - 1));
	if (thread->is_charged) {
		thread->is_charged--;
		clear((void *)record + COUNTED, sizeof(*record) - COUNTED);
	} else {
		__builtin_memset(&record->long_poll, 0, sizeof(record->long_poll));
		__builtin_memset(record->account.mode_ns, 0, sizeof(record->account.mode_ns));
		record->account.tool_ns = 0;
	}
	record->epoch = epoch;
	record->number = number;
	thread->record = number;
	barrier();
	thread->epoch = epoch;
	return record;
}

static __always_inline void begin_record(struct thread_record *record, struct thread *thread,
					 __u64 epoch, __u64 number)
{
	struct task_struct *task = (void *)thread->task;

	clear(record, sizeof(*record));
	record->epoch = epoch;
	record->identity = thread->identity;
	record->tid = thread->tid;
	record->own_tid = thread->own_tid;
	record->process = thread->process;
	record->kernel_worker = thread->kernel_worker;
	note_thread_state(&record->account.first, thread);
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	record->number = number;
}

/*
 * The epoch is set last: an interrupt until then, or another thread that
 * renames this one, finds no record and makes one of its own.
 */
static __always_inline struct thread_record *new_record(struct thread *thread, __u64 epoch)
{
	struct thread_record *record;
	__u64 number;

	if (options.rounds && thread->record)
		return renew_record(thread, epoch);
	thread->record = 0;
	number = take_record(THREAD_RING, options.thread_records, epoch);
	if (!number) {
		thread->epoch = epoch;
		return NULL;
	}
	record = thread_record_at(number);
	if (!record)
		return NULL;
	if (options.rounds)
		number = next_number(record->number, number & options.thread_records);
	begin_record(record, thread, epoch, number);
	thread->record = number;
	barrier();
	thread->epoch = epoch;
	return record;
}

/* Is the window over, and nothing of @thread, which has no record of it, lies in it? */
static __always_inline bool is_later(const struct thread *thread, const struct timestamp *timestamp)
{
	if (timestamp->now_ns < timestamp->stop_ns)
		return false;
	/* Until it is woken for the first time a new thread is not alive. */
	return thread->state == STATE_NOT_ALIVE || (thread->mode_since_ns >= timestamp->stop_ns &&
						    thread->since_ns >= timestamp->stop_ns);
}

/* Has for the window of @timestamp the thread's round, if these are the windows. */
static __always_inline void see_round(struct timestamp *timestamp, const struct thread *thread)
{
	if (!options.rounds)
		return;
	timestamp->epoch = thread->round;
	timestamp->start_ns = thread->round_start_ns;
	timestamp->stop_ns = thread->round_stop_ns;
}

/*
 * What is charged to a round is cleared as the next one's record is made. If it is the first of its
 * own round, its record is made between use_round() and the charge.
 */
#define RENEWALS_THAT_CLEAR 2

/* The same for what is more than calls and the program. */
static __always_inline void use_round(struct timestamp *timestamp, struct thread *thread)
{
	see_round(timestamp, thread);
	if (!options.rounds || thread->round_stop_ns != NEVER_NS)
		return;
	thread->is_charged = RENEWALS_THAT_CLEAR;
	timestamp->stop_ns = *(volatile __u64 *)&thread->round_ends_ns;
}

/*
 * As new_record(), of a round. An interrupt meanwhile has no record, as what it would charge would
 * be cleared: its time is charged when that is done.
 */
static __always_inline void new_record_of_round(struct thread *thread, __u64 epoch)
{
	__u32 mode = thread->mode & (MODE_SLOTS - 1);
	struct thread_record *record;

	if (thread->is_renewed)
		return;
	thread->is_renewed = 1;
	barrier();
	record = new_record(thread, epoch);
	barrier();
	thread->is_renewed = 0;
	barrier();
	if (!thread->late_hard_irq_ns && !thread->late_soft_irq_ns)
		return;
	if (record) {
		/* The next interrupt may come at any time. */
		__sync_fetch_and_add(&record->account.hard_irq_ns[mode], thread->late_hard_irq_ns);
		__sync_fetch_and_add(&record->account.soft_irq_ns[mode], thread->late_soft_irq_ns);
		thread->is_charged = 1;
	}
	thread->late_hard_irq_ns = 0;
	thread->late_soft_irq_ns = 0;
}

/* Makes @thread's record of that @epoch, if there is room. Not static, as take_record(). */
__noinline int make_record(struct thread *thread, __u64 epoch)
{
	if (!thread)
		return 0;
	if (options.rounds)
		new_record_of_round(thread, epoch);
	else
		new_record(thread, epoch);
	return 0;
}

/* The record of @thread in @timestamp's epoch, if it has one already. */
static __always_inline struct thread_record *find_made_record(const struct thread *thread,
							      const struct timestamp *timestamp)
{
	return thread_record_at(thread->epoch == timestamp->epoch ? thread->record : 0);
}

/*
 * The record of @thread in @timestamp's epoch, or NULL if there is no room, or no need. Callers
 * that only pass it on do not look which: the verifier then follows both at once.
 */
static __always_inline struct thread_record *find_or_make_record(struct thread *thread,
								 const struct timestamp *timestamp)
{
	if (thread->epoch != timestamp->epoch && !is_later(thread, timestamp))
		make_record(thread, timestamp->epoch);
	return find_made_record(thread, timestamp);
}

#endif
