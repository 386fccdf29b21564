/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A thread's sleeps, summed up by where it slept and who woke it.
 */
#ifndef KERNEL_DELAY_SLEEP_RECORD_H
#define KERNEL_DELAY_SLEEP_RECORD_H

#include "run_queue.h"
#include "syscall_id.h"
#include "thread.h"
#include "thread_record.h"

/*
 * The open file that a thread sleeps in a call on: its descriptor, and its inode, by which user
 * space sees later whether that descriptor is still of the same.
 */

/*
 * What the @descriptor of the call of that @number is of, as struct sleep_record has it, by its
 * process's array of @files. Outside of a call, as of a number that has no slot for flags, nothing
 * is behind it that user space takes for a file. Not static, as take_record().
 */
__noinline __u64 file_of(__u64 files, __u32 descriptor, __u32 number)
{
	struct file *file = NULL;

	if (!options.accounting ||
	    !(options.syscall_flags[0][number & (FLAGGED_SYSCALLS - 1)] & SYSCALL_HAS_FILE))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), (struct file **)files + descriptor);
	return BPF_CORE_READ(file, f_inode, i_ino) << 32 | (descriptor + 1);
}

/*
 * The same of @task, which sleeps. The number of a 32-bit call means another one, and its
 * arguments are elsewhere: user space passes over its file.
 */
static __always_inline __u64 sleep_file(struct task_struct *task)
{
	struct pt_regs___syscall *regs;

	if (!HAS_TASK_PT_REGS)
		return 0;
	regs = (struct pt_regs___syscall *)bpf_task_pt_regs(task);
	return file_of((__u64)BPF_CORE_READ(task->files->fdt, fd), first_argument(regs),
		       syscall_number(regs));
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sleep_record);
} sleep_records SEC(".maps");

static __always_inline struct sleep_record *sleep_record_at(__u64 number)
{
	__u32 slot = number & (options.sleep_records - 1);

	return bpf_map_lookup_elem(&sleep_records, &slot);
}

static __always_inline __u64 *sleeps_of(struct thread_record *thread, const struct sleep_key *key)
{
	__u32 list = key->stack ^ key->waker ^ key->waker_stack ^ (__u32)key->file;

	barrier_var(list);
	return &thread->sleeps[list & (SLEEP_LISTS - 1)];
}

static __always_inline void begin_sleep_record(struct sleep_record *record,
					       const struct thread_record *thread,
					       const struct sleep_key *key)
{
	clear(record, sizeof(*record));
	record->thread = thread->number;
	record->syscall = key->syscall;
	record->file = key->file;
	record->stack = key->stack;
	record->uninterruptible = key->uninterruptible;
	record->waker_kind = key->waker_kind;
	record->waker_stack = key->waker_stack;
	record->waker.task = key->waker;
}

static __always_inline __u64 new_sleep_record(struct thread_record *thread,
					      const struct sleep_key *key)
{
	struct sleep_record *record;
	__u64 number;

	/* None is no loss: there is a sum for those without a record. */
	number = take_record(SLEEP_RING, options.sleep_records, thread->epoch);
	if (!number)
		return 0;
	record = sleep_record_at(number);
	if (!record)
		return 0;
	begin_sleep_record(record, thread, key);
	record->next = *sleeps_of(thread, key);
	record->number = number;
	*sleeps_of(thread, key) = number;
	return number;
}

/* Has for @key the record of that @number, which is of an earlier round. */
static __always_inline __u64 renew_sleep_record(struct thread_record *thread,
						const struct sleep_key *key, __u64 number)
{
	struct sleep_record *record = sleep_record_at(number);
	__u64 next;

	if (!record)
		return 0;
	next = record->next;
	begin_sleep_record(record, thread, key);
	record->next = next;
	record->number = number;
	return number;
}

/* A way through a thread's list of sleeps. */
struct sleep_search {
	__u64 number; /* of the next record, or of the one that was found */
	__u64 earlier; /* of a record that is of an earlier round; 0: none yet */
	__u64 thread; /* number of the thread_record */
	struct sleep_key key;
	__u64 passed; /* records of other sleeps */
};

/* As pass_owner(). */
__noinline int pass_sleep(struct sleep_search *search)
{
	const struct sleep_key *key;
	struct sleep_record *record;

	if (!options.accounting || !search || !search->number)
		return 1;
	key = &search->key;
	record = sleep_record_at(search->number);
	if (!record ||
	    !((record->stack ^ key->stack) | (record->syscall ^ key->syscall) |
	      (record->file ^ key->file) | (record->waker_stack ^ key->waker_stack) |
	      (record->waker.task ^ key->waker) | (record->waker_kind ^ key->waker_kind) |
	      (record->uninterruptible ^ key->uninterruptible) | (record->thread ^ search->thread)))
		return 1;
	if (is_of_earlier_round(record->thread, search->thread))
		search->earlier = search->number;
	search->number = record->next;
	search->passed++;
	return 0;
}

STEP(pass_sleep, struct sleep_search)

/*
 * The number of a sleep's record, 0 if there is no room. A list is full of single wakers and files
 * before it is of where the thread slept. Not static, as take_record().
 */
__noinline __u64 find_sleep(struct thread_record *thread, struct sleep_key *key)
{
	struct sleep_search search = {};
	__u64 most = SLEEPS_SEARCHED;

	if (!thread || !key)
		return 0;
	search.number = *sleeps_of(thread, key);
	search.thread = thread->number;
	search.key = *key;
	REPEAT(SLEEPS_SEARCHED, pass_sleep, &search);
	if (search.number && search.passed < SLEEPS_SEARCHED)
		return search.number;
	if (search.earlier)
		return renew_sleep_record(thread, key, search.earlier);
	if (key->file)
		most = SLEEPS_ON_FILES;
	else if (key->waker)
		most = SLEEPS_PER_LIST;
	if (search.passed >= most)
		return 0;
	return new_sleep_record(thread, key);
}

/* The same for @key; where there is no room, that of files, and then wakers, not distinguished. */
static __always_inline __u64 find_sleep_of_waker(struct thread_record *thread,
						 struct sleep_key *key)
{
	__u64 number = find_sleep(thread, key);

	if (!number && key->file) {
		key->file = 0;
		number = find_sleep(thread, key);
	}
	if (number || !key->waker)
		return number;
	key->waker = 0;
	key->waker_stack = 0;
	key->waker_kind = WAKER_UNKNOWN;
	return find_sleep(thread, key);
}

#endif
