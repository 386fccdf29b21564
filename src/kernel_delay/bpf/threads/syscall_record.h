/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A thread's records of its system calls, one for each.
 */
#ifndef KERNEL_DELAY_SYSCALL_RECORD_H
#define KERNEL_DELAY_SYSCALL_RECORD_H

#include "thread_record.h"

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
	slot &= options.syscall_records - 1;
	return bpf_map_lookup_elem(&syscall_records, &slot);
}

/* The slot of a call in struct thread. Of the two ABIs those that are used most don't meet. */
static __always_inline __u16 *direct_slot(struct thread *thread, __u64 syscall)
{
	__u32 slot = syscall & COMPAT_SYSCALL ? syscall + DIRECT_SYSCALLS / 2 : syscall;

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
	__u16 *direct;
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
	slot = number & (options.syscall_records - 1);
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
	if (record && record->thread == thread->record && record->syscall == syscall)
		return record;
	number = find_other_syscall_record(thread, syscall);
	return number ? syscall_record_at(number) : NULL;
}

#endif
