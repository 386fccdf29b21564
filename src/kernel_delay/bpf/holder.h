/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Who had what a thread waited for: the CPU, or a lock.
 */
#ifndef KERNEL_DELAY_HOLDER_H
#define KERNEL_DELAY_HOLDER_H

#include "accounting.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct holder_record);
} holder_records SEC(".maps");

static __always_inline struct holder_record *holder_record_at(__u64 number)
{
	__u32 place = number & (options.holder_records - 1);

	return bpf_map_lookup_elem(&holder_records, &place);
}

/* One of a thread's lists of holders, so that a search is short. */
static __always_inline __u64 *holders_of(struct thread_record *thread, __u32 task)
{
	barrier_var(task);
	return &thread->account.holders[task & (HOLDER_LISTS - 1)];
}

static __always_inline struct holder_record *find_holder_record(struct thread_record *thread,
								__u64 lock, __u32 task)
{
	__u64 number = *holders_of(thread, task);
	struct holder_record *record;

	for (int i = 0; i < HOLDERS_PER_LIST && number; i++) {
		record = holder_record_at(number);
		if (!record)
			return NULL;
		if (record->task == task && record->lock == lock)
			return record;
		number = record->next;
	}
	/* A full list stays as it is: a crowd of holders must not fill the ring. */
	if (number)
		return NULL;
	number = take_record(HOLDER_RING, options.holder_records, thread->epoch);
	if (!number)
		return NULL;
	record = holder_record_at(number);
	if (!record)
		return NULL;
	__builtin_memset(record, 0, sizeof(*record));
	record->thread = thread->number;
	record->next = *holders_of(thread, task);
	record->lock = lock;
	record->task = task;
	record->number = number;
	*holders_of(thread, task) = number;
	return record;
}

/* @length_ns of the thread's wait for a CPU ends as @holder leaves that one to it. */
static __always_inline void charge_cpu_holder(struct thread_record *thread,
					      struct task_struct *holder, __u64 length_ns)
{
	struct holder_record *record = find_holder_record(thread, 0, holder->pid);

	if (!record) {
		thread->account.other_holders_ns += length_ns;
		return;
	}
	if (!record->waits && holder->pid) {
		record->tid = thread_id(holder);
		bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), holder->comm);
	}
	record->waits++;
	record->total_ns += length_ns;
}

static __always_inline void charge_lock_holder(struct thread_record *record,
					       const struct thread *thread, __u64 length_ns)
{
	struct holder_record *holder =
		find_holder_record(record, thread->lock, thread->lock_holder);

	if (!holder)
		return;
	holder->waits++;
	holder->total_ns += length_ns;
}

/*
 * Is the futex call a wait for a lock, and who holds it? glibc's mutexes wait
 * by FUTEX_WAIT while the futex is 2, locked and waited for, and have the
 * owner's thread id 8 bytes after it, 32-bit ones too (nptl/lowlevellock.c and
 * sysdeps/nptl/bits/struct_mutex.h, glibc 2.26 to 2.42). Whatever else looks
 * like this has no thread's id there, which user space sees to.
 */
#define FUTEX_CMD_MASK 0x7f
#define FUTEX_WAIT 0
#define LOCKED_AND_WAITED_FOR 2
#define OWNER_OFFSET 8

static __always_inline void note_lock(struct thread *thread, __u64 syscall, struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;
	__u64 lock, operation, value;
	__u32 owner = 0;

#if defined(__TARGET_ARCH_x86)
	if (syscall & COMPAT_SYSCALL) {
		lock = BPF_CORE_READ(call, bx);
		operation = BPF_CORE_READ(call, cx);
	} else {
		lock = BPF_CORE_READ(call, di);
		operation = BPF_CORE_READ(call, si);
	}
	value = BPF_CORE_READ(call, dx);
#elif defined(__TARGET_ARCH_arm64)
	lock = BPF_CORE_READ(call, regs[0]);
	operation = BPF_CORE_READ(call, regs[1]);
	value = BPF_CORE_READ(call, regs[2]);
#endif
	if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT && (__u32)value == LOCKED_AND_WAITED_FOR)
		bpf_probe_read_user(&owner, sizeof(owner), (void *)(lock + OWNER_OFFSET));
	thread->lock = lock;
	thread->lock_holder = owner;
}

#endif
