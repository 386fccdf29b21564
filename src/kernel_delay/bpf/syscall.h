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

/* Calls whose place in struct thread has another. */
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

/* The place of a call in struct thread. Of the two ABIs those that are used most don't meet. */
static __always_inline __u16 *direct_place(struct thread *thread, __u64 syscall)
{
	__u32 place = syscall & COMPAT_SYSCALL ? syscall + DIRECT_SYSCALLS / 2 : syscall;

	return &thread->syscall_records[place & (DIRECT_SYSCALLS - 1)];
}

static __noinline struct syscall_record *new_syscall_record(struct thread *thread, __u64 syscall)
{
	__u16 *direct = direct_place(thread, syscall);
	struct syscall_record *record, *other;
	bool taken;
	__u64 number;
	__u32 place;

	number = take_record(SYSCALL_RING, options.syscall_records, thread->epoch);
	if (!number)
		return NULL;
	record = syscall_record_at(number);
	if (!record)
		return NULL;
	other = syscall_record_at(*direct);
	taken = other && other != record && other->thread == thread->record;
	__builtin_memset(record, 0, sizeof(*record));
	record->thread = thread->record;
	record->syscall = syscall;
	record->number = number;
	place = number & (options.syscall_records - 1);
	if (taken) {
		struct rare_syscall key = {thread->record, syscall};

		bpf_map_update_elem(&rare_syscall_records, &key, &place, BPF_ANY);
	} else {
		*direct = place;
	}
	return record;
}

static __noinline struct syscall_record *find_rare_syscall_record(struct thread *thread,
								  __u64 syscall)
{
	struct rare_syscall key = {thread->record, syscall};
	__u32 *place = bpf_map_lookup_elem(&rare_syscall_records, &key);
	struct syscall_record *record = NULL;

	if (place)
		record = syscall_record_at(*place);
	if (record && record->thread == thread->record && record->syscall == syscall)
		return record;
	return new_syscall_record(thread, syscall);
}

/* The record of a syscall of @thread, or NULL if there was no room. */
static __always_inline struct syscall_record *find_syscall_record(struct thread *thread,
								  __u64 syscall)
{
	struct syscall_record *record;

	if (!thread->record)
		return NULL;
	record = syscall_record_at(*direct_place(thread, syscall));
	if (!record || record->thread != thread->record)
		return new_syscall_record(thread, syscall);
	if (record->syscall != syscall)
		return find_rare_syscall_record(thread, syscall);
	return record;
}

static __always_inline void enter_syscall(struct thread *thread, struct task_struct *task,
					  __u64 syscall, struct pt_regs *regs,
					  const struct moment *moment)
{
	struct thread_record *record = NULL;
	__u8 flags = syscall_flags(syscall);

	if (options.accounting && flags & SYSCALL_IS_FUTEX)
		note_lock(thread, syscall, regs);
	if (thread->mode == MODE_UNKNOWN)
		thread->mode = MODE_USER;
	if (options.accounting || flags & SYSCALL_IS_POLL)
		record = find_record(thread, task, moment);
	if (flags & SYSCALL_IS_POLL && record && is_within(moment, thread->poll_return_ns))
		count_interval(&record->long_poll, moment, thread->poll_return_ns);
	enter_mode(thread, record, MODE_SYSCALL, moment);
	thread->syscall = syscall;
	thread->syscall_since_ns = moment->now_ns;
}

/* A call that crosses an edge of the window has no count, but its time is accounted for. */
static __always_inline void end_call_at_edge(struct thread *thread, const struct moment *moment)
{
	__u64 length_ns = clip(moment, thread->mode_since_ns);
	struct syscall_record *syscall;

	if (!options.accounting || !length_ns)
		return;
	syscall = find_syscall_record(thread, thread->syscall);
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
	syscall = find_syscall_record(thread, thread->syscall);
	if (!syscall)
		return;
	count_interval(&syscall->calls, moment, thread->syscall_since_ns);
	count_length(&syscall->lengths, moment, thread->syscall_since_ns);
}

/*
 * @thread leaves a call that it never entered: a seccomp filter, or a tracer,
 * denied it in the entry work, of which the tracepoint is the last part
 * (kernel/entry/common.c:syscall_trace_enter(), 5.14 to 6.18). When that
 * began is not known. Without either of the two its entry was missed, as it
 * may have been with them.
 */
static __always_inline void count_without_entry(struct thread *thread, struct task_struct *task,
						struct pt_regs *regs, const struct moment *moment)
{
	struct syscall_record *record;
	bool filtered = bpf_core_field_exists(task->seccomp.mode) && task->seccomp.mode;
	__u32 number;

	if (!filtered && !task->ptrace) {
		count_up(&control.missed_events);
		return;
	}
	if (!is_within(moment, moment->now_ns))
		return;
	number = syscall_number((struct pt_regs___syscall *)regs);
	record = find_syscall_record(thread, syscall_id(task, number));
	if (record)
		record->without_entry++;
}

/*
 * A thread may be in a syscall that it entered before the programs were
 * attached, and a new one leaves the clone(2) that its parent entered: it is
 * known since when that is so, but there is no call to count.
 */
static __always_inline void leave_syscall(struct thread *thread, struct task_struct *task,
					  struct pt_regs *regs, const struct moment *moment)
{
	struct thread_record *record;

	if (thread->mode == MODE_UNKNOWN) {
		settle_mode(task, &thread->mode, &thread->syscall);
		thread->mode = MODE_SYSCALL;
	}
	record = find_record(thread, task, moment);
	if (thread->mode == MODE_USER) {
		if (record)
			count_without_entry(thread, task, regs, moment);
		return;
	}
	if (thread->syscall != NO_SYSCALL && record)
		end_call(thread, moment);
	if (syscall_flags(thread->syscall) & SYSCALL_IS_POLL)
		thread->poll_return_ns = moment->now_ns;
	enter_mode(thread, record, MODE_USER, moment);
	thread->syscall = NO_SYSCALL;
}

#endif
