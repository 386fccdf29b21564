/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where a thread slept and who woke it. A sleep that is worth it is looked at when
 * it is about to end, by its waker (sched_waking): then the thread is in the kernel
 * still where it slept. Its time is charged when it has ended (sched_wakeup), so
 * that all sleeps make up the time in STATE_BLOCKED.
 */
#ifndef KERNEL_DELAY_SLEEP_H
#define KERNEL_DELAY_SLEEP_H

#include "accounting.h"
#include "owner.h"
#include "run_queue.h"
#include "stack.h"
#include "waited_for.h"

/*
 * A thread's sleeps, summed up by where it slept and who woke it.
 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sleep_record);
} sleep_records SEC(".maps");

static __always_inline struct sleep_record *sleep_record_at(__u64 number)
{
	__u32 slot = number & options.sleep_records;

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

static __always_inline bool is_long_sleep(__u64 since_ns, __u64 now_ns)
{
	return length_since(now_ns, since_ns) >= options.sleep_ns;
}

/* thread.sleep_record of one that was not worth a look. */
#define UNSEEN_SLEEP ((__u64)-1)

/* The time in short sleeps of @thread's for which no other was looked at yet, in @record. */
static __always_inline __u64 unseen_ns(const struct thread *thread,
				       const struct thread_record *record)
{
	return thread->unseen_record == record->number ? thread->unseen_ns : 0;
}

/*
 * Is it worth a look what @thread sleeps for? From options.sleep_ns on each sleep is, and
 * of the shorter ones one in so much time, which stands for all since the one before.
 */
static __always_inline bool is_worth_a_look(const struct thread *thread, __u64 now_ns)
{
	__u64 length_ns = length_since(now_ns, thread->since_ns);

	return length_ns + thread->unseen_ns >= options.sleep_ns;
}

static __always_inline void charge_unseen_sleep(struct thread *thread, struct thread_record *record,
						__u64 length_ns)
{
	record->account.short_sleeps++;
	record->account.short_sleeps_ns += length_ns;
	thread->unseen_ns = unseen_ns(thread, record) + length_ns;
	thread->unseen_record = record->number;
}

/*
 * Charges a time in the window of a sleep that is over, and began at thread->since_ns. A short
 * one that was looked at stands for those that were not.
 */
static __always_inline void charge_sleep(struct thread *thread, struct thread_record *record,
					 __u64 length_ns)
{
	bool noted = thread->sleep_since_ns == thread->since_ns;
	struct sleep_record *sleep = NULL;

	if (noted && thread->sleep_record == UNSEEN_SLEEP) {
		charge_unseen_sleep(thread, record, length_ns);
		return;
	}
	if (noted && thread->sleep_record)
		sleep = sleep_record_at(thread->sleep_record);
	if (!sleep || sleep->thread != record->number) {
		record->account.other_sleeps++;
		record->account.other_sleeps_ns += length_ns;
		return;
	}
	sleep->sleeps++;
	sleep->total_ns += length_ns;
	if (length_ns > sleep->max_ns)
		sleep->max_ns = length_ns;
	if (thread->sleep_is_short) {
		sleep->short_ns += length_ns + unseen_ns(thread, record);
		sleep->total_ns += unseen_ns(thread, record);
		record->account.short_sleeps_ns -= unseen_ns(thread, record);
		thread->unseen_ns = 0;
	}
}

/*
 * cgroup v1's freezer, from Linux 6.1 on. A thread that sleeps where it may be frozen, as in
 * nanosleep(2) or futex(2), gets another state and sleeps on: no tracepoint shows it
 * (kernel/freezer.c:__set_task_frozen(), 6.1 to 6.18). Its state is looked at when it is woken and
 * when user space asks. A thread that slept elsewhere, or ran, leaves its CPU to be frozen, which
 * shows when its process was.
 *
 * A thread that is thawed before anything would have woken it sleeps on from 6.7 on (commit
 * 8f0eed4a78a8): it lost nothing, and counts as blocked unless it was seen meanwhile.
 */

/*
 * By how much a thread of a process is thawed after another, at most: it is one loop
 * (kernel/cgroup/legacy_freezer.c:unfreeze_cgroup(), 5.14 to 6.18). Later it may have been frozen
 * again.
 */
#define THAW_NS 10000000

/* Is @thread, which sleeps, known to be frozen? */
static __always_inline bool is_known_frozen(const struct thread *thread)
{
	return thread->frozen_since_ns > thread->since_ns;
}

static __always_inline struct thread *first_thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task->group_leader, NULL, 0);
}

/* @task leaves its CPU to be frozen; the first of its process shows when that was. */
static __always_inline void note_freeze(struct task_struct *task, __u64 now_ns)
{
	struct thread *first = first_thread_of(task);

	if (first && first->freeze_ns <= first->thaw_ns)
		first->freeze_ns = now_ns;
}

/* @task, which was so, is thawed. */
static __always_inline void note_thaw(struct task_struct *task, __u64 now_ns)
{
	struct thread *first = first_thread_of(task);

	if (first)
		first->thaw_ns = now_ns;
}

/*
 * @thread sleeps and is frozen, as is seen now: since when does the @first thread of its process
 * say, or it is not known. Not static, as take_record().
 */
__noinline int find_freeze(struct thread *thread, const struct thread *first, __u64 now_ns)
{
	__u64 until_ns;

	if (!thread)
		return 0;
	until_ns = thread->blocked_until_ns > thread->since_ns ? thread->blocked_until_ns
							       : thread->since_ns;
	thread->blocked_until_ns = until_ns;
	thread->frozen_since_ns = now_ns;
	if (!first || first->freeze_ns <= until_ns ||
	    (first->thaw_ns >= first->freeze_ns && length_since(now_ns, first->thaw_ns) > THAW_NS))
		return 0;
	thread->blocked_until_ns = first->freeze_ns;
	thread->frozen_since_ns = first->freeze_ns;
	return 0;
}

/* Looks whether @thread of @task, which sleeps, is frozen. */
static __always_inline void see_freezer(struct thread *thread, struct task_struct *task,
					__u64 now_ns)
{
	if (!(task->__state & TASK_FROZEN))
		thread->frozen_since_ns = 0;
	else if (!is_known_frozen(thread))
		find_freeze(thread, first_thread_of(task), now_ns);
}

/* The same, of one that may be woken meanwhile: who wakes it has looked by then. */
static __always_inline void look_at_sleeper(struct thread *thread, struct task_struct *task)
{
	if (!options.freezer || thread->state != STATE_BLOCKED ||
	    !(task->__state & (TASK_NORMAL | TASK_FROZEN)))
		return;
	see_freezer(thread, task, bpf_ktime_get_ns());
	if (!is_known_frozen(thread))
		thread->blocked_until_ns = bpf_ktime_get_ns();
}

/*
 * Of a target that came into a freezer's cgroup after the programs it is not known since when it
 * is frozen. Without a branch: the verifier would follow both ways to the program's end.
 */
static __always_inline void note_unknown_freeze(struct thread_state *dumped,
						const struct task_struct *task)
{
	__u64 is_frozen = task->__state / TASK_FROZEN & 1;

	barrier_var(is_frozen);
	if (!options.freezer)
		dumped->frozen_since_ns |= 0 - is_frozen;
}

#endif
