/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * System calls: how often each is made, how long it takes, and how long a
 * thread works between two polls.
 */
#ifndef KERNEL_DELAY_SYSCALL_H
#define KERNEL_DELAY_SYSCALL_H

#include "accounting.h"
#include "holder.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct syscall_record);
} syscall_records SEC(".maps");

/* Numbers that have no place in struct thread: unknown to every kernel yet. */
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

static __always_inline struct syscall_record *syscall_record_at(__u32 place)
{
	place &= options.syscall_records - 1;
	return bpf_map_lookup_elem(&syscall_records, &place);
}

static __noinline struct syscall_record *new_syscall_record(struct thread *thread)
{
	struct syscall_record *record;
	__u64 number;

	number = take_record(SYSCALL_RING, options.syscall_records, thread->epoch);
	if (!number)
		return NULL;
	record = syscall_record_at(number);
	if (!record)
		return NULL;
	__builtin_memset(record, 0, sizeof(*record));
	record->thread = thread->record;
	record->syscall = thread->syscall;
	record->number = number;
	if (thread->syscall < DIRECT_SYSCALLS) {
		thread->syscall_records[thread->syscall & (DIRECT_SYSCALLS - 1)] =
			number & (options.syscall_records - 1);
	} else {
		struct rare_syscall key = {thread->record, thread->syscall};
		__u32 place = number & (options.syscall_records - 1);

		bpf_map_update_elem(&rare_syscall_records, &key, &place, BPF_ANY);
	}
	return record;
}

/* The record of the syscall that @thread is in, or NULL if there was no room. */
static __always_inline struct syscall_record *find_syscall_record(struct thread *thread)
{
	struct syscall_record *record = NULL;

	if (!thread->record)
		return NULL;
	if (thread->syscall < DIRECT_SYSCALLS) {
		record = syscall_record_at(
			thread->syscall_records[thread->syscall & (DIRECT_SYSCALLS - 1)]);
	} else {
		struct rare_syscall key = {thread->record, thread->syscall};
		__u32 *place = bpf_map_lookup_elem(&rare_syscall_records, &key);

		if (place)
			record = syscall_record_at(*place);
	}
	if (record && record->thread == thread->record && record->syscall == thread->syscall)
		return record;
	return new_syscall_record(thread);
}

static __always_inline bool is_poll(__u64 syscall)
{
	return syscall < DIRECT_SYSCALLS &&
	       options.syscall_flags[syscall & (DIRECT_SYSCALLS - 1)] & SYSCALL_IS_POLL;
}

static __always_inline void enter_syscall(struct thread *thread, struct task_struct *task,
					  __u64 number, const struct moment *moment)
{
	struct thread_record *record = NULL;
	bool polls = is_poll(number);

	if (thread->mode == MODE_UNKNOWN)
		thread->mode = MODE_USER;
	if (options.accounting || polls)
		record = find_record(thread, task, moment);
	if (polls && record && is_within(moment, thread->poll_return_ns))
		count_interval(&record->long_poll, moment, thread->poll_return_ns);
	enter_mode(thread, record, MODE_SYSCALL, moment);
	thread->syscall = number;
	thread->syscall_since_ns = moment->now_ns;
}

/* A call that crosses an edge of the window has no count, but its time is accounted for. */
static __always_inline void end_call_at_edge(struct thread *thread, const struct moment *moment)
{
	__u64 length_ns = clip(moment, thread->mode_since_ns);
	struct syscall_record *syscall;

	if (!options.accounting || !length_ns)
		return;
	syscall = find_syscall_record(thread);
	if (syscall)
		syscall->edge_ns += length_ns;
}

static __always_inline void end_call(struct thread *thread, const struct moment *moment)
{
	struct syscall_record *syscall;

	if (!is_within(moment, thread->syscall_since_ns)) {
		end_call_at_edge(thread, moment);
		return;
	}
	syscall = find_syscall_record(thread);
	if (!syscall)
		return;
	count_interval(&syscall->calls, moment, thread->syscall_since_ns);
	count_length(&syscall->lengths, moment, thread->syscall_since_ns);
}

/*
 * A thread may be in a syscall that it entered before the programs were
 * attached, and a new one leaves the clone(2) that its parent entered: it is
 * known since when that is so, but there is no call to count.
 */
static __always_inline void leave_syscall(struct thread *thread, struct task_struct *task,
					  const struct moment *moment)
{
	struct thread_record *record;

	if (thread->mode == MODE_UNKNOWN) {
		settle_mode(task, &thread->mode, &thread->syscall);
		thread->mode = MODE_SYSCALL;
	}
	record = find_record(thread, task, moment);
	if (thread->syscall != NO_SYSCALL && record)
		end_call(thread, moment);
	if (is_poll(thread->syscall))
		thread->poll_return_ns = moment->now_ns;
	enter_mode(thread, record, MODE_USER, moment);
	thread->syscall = NO_SYSCALL;
}

#endif
