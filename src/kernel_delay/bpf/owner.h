/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Who had what a thread waited for: the CPU, or a lock. Each wait's time in the
 * window is charged to an owner, to the sum of several, or to that of unknown
 * ones, so that all of them make up the time in the state that they explain.
 */
#ifndef KERNEL_DELAY_OWNER_H
#define KERNEL_DELAY_OWNER_H

#include "accounting.h"
#include "run_queue.h"
#include "thread_record.h"
#include "waited_for.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct owner_record);
} owner_records SEC(".maps");

static __always_inline struct owner_record *owner_record_at(__u64 number)
{
	__u32 slot = number & options.owner_records;

	return bpf_map_lookup_elem(&owner_records, &slot);
}

/* One of a thread's lists of owners, so that a search is short. */
static __always_inline __u64 *owners_of(struct thread_record *thread, __u32 task)
{
	barrier_var(task);
	return &thread->owners[task & (OWNER_LISTS - 1)];
}

static __always_inline void begin_owner_record(struct owner_record *record,
					       const struct thread_record *thread, __u64 lock,
					       __u32 task)
{
	clear(record, sizeof(*record));
	record->thread = thread->number;
	record->lock = lock;
	record->info.task = task;
}

static __always_inline __u64 new_owner_record(struct thread_record *thread, __u64 lock, __u32 task)
{
	struct owner_record *record;
	__u64 number;

	/* None is no loss: there is a sum for those without a record. */
	number = take_record(OWNER_RING, options.owner_records, thread->epoch);
	if (!number)
		return 0;
	record = owner_record_at(number);
	if (!record)
		return 0;
	begin_owner_record(record, thread, lock, task);
	record->next = *owners_of(thread, task);
	record->number = number;
	*owners_of(thread, task) = number;
	return number;
}

/* Has for another owner the record of that @number, which is of an earlier round. */
static __always_inline __u64 renew_owner_record(struct thread_record *thread, __u64 lock,
						__u32 task, __u64 number)
{
	struct owner_record *record = owner_record_at(number);
	__u64 next;

	if (!record)
		return 0;
	next = record->next;
	begin_owner_record(record, thread, lock, task);
	record->next = next;
	record->number = number;
	return number;
}

/* A way through a thread's list of owners. */
struct owner_search {
	__u64 number; /* of the next record, or of the one that was found */
	__u64 earlier; /* of a record that is of an earlier round; 0: none yet */
	__u64 thread; /* number of the thread_record */
	__u64 lock;
	__u32 task;
	__u32 passed; /* records of other owners */
};

/* One branch for all that is compared, as the verifier follows each. */
static __always_inline bool is_of_owner(const struct owner_record *record, __u64 thread, __u64 lock,
					__u32 task)
{
	return !((record->info.task ^ task) | (record->lock ^ lock) | (record->thread ^ thread));
}

/* Returns whether the next record is the one, or there is none. Not static, for REPEAT. */
__noinline int pass_owner(struct owner_search *search)
{
	struct owner_record *record;

	if (!options.accounting || !search || !search->number)
		return 1;
	record = owner_record_at(search->number);
	if (!record || is_of_owner(record, search->thread, search->lock, search->task))
		return 1;
	if (is_of_earlier_round(record->thread, search->thread))
		search->earlier = search->number;
	search->number = record->next;
	search->passed++;
	return 0;
}

STEP(pass_owner, struct owner_search)

/*
 * The number of that owner's record, 0 if there is none and no room. A full list keeps its
 * records: a crowd of owners must not fill the ring. Not static, as take_record().
 */
__noinline __u64 find_owner(struct thread_record *thread, __u64 lock, __u32 task)
{
	struct owner_search search = {.lock = lock, .task = task};
	__u32 most = lock ? OWNERS_PER_LIST : TASKS_PER_LIST;

	if (!options.accounting || !thread)
		return 0;
	if (lock == SEVERAL_LOCKS)
		most = OWNERS_SEARCHED;
	search.number = *owners_of(thread, task);
	search.thread = thread->number;
	REPEAT(OWNERS_SEARCHED, pass_owner, &search);
	if (search.number && search.passed < OWNERS_SEARCHED)
		return search.number;
	if (search.earlier)
		return renew_owner_record(thread, lock, task, search.earlier);
	return search.passed < most ? new_owner_record(thread, lock, task) : 0;
}

/* Of an owner of many locks one more record sums up the rest. */
static __always_inline __u64 find_owner_or_sum(struct thread_record *thread, __u64 lock, __u32 task)
{
	__u64 number = find_owner(thread, lock, task);

	if (number || !lock)
		return number;
	return find_owner(thread, SEVERAL_LOCKS, task);
}

/* It is mostly the one that was charged before. */
static __always_inline struct owner_record *find_owner_record(struct thread_record *thread,
							      __u64 lock, __u32 task)
{
	struct owner_record *record = owner_record_at(thread->owner);

	if (!record || !thread->owner || !is_of_owner(record, thread->number, lock, task)) {
		thread->owner = find_owner_or_sum(thread, lock, task);
		record = owner_record_at(thread->owner);
	}
	return thread->owner ? record : NULL;
}

/* Charges a part of the wait that began at @wait_ns. */
static __always_inline void charge_owner(struct owner_record *record, __u64 wait_ns,
					 __u64 length_ns)
{
	if (record->wait_ns != wait_ns)
		record->waits++;
	record->wait_ns = wait_ns;
	record->total_ns += length_ns;
}

/* A thread's way through the slices of a CPU that it waited for. */
struct slice_walk {
	__u64 record; /* number of its thread_record */
	__u64 wait_ns; /* when the wait began */
	__u64 charged_ns; /* up to when it is charged */
	__u64 start_ns; /* of the window */
	__u64 stop_ns; /* of the window, or when the wait ends, if that is before */
	__u64 number; /* of the next slice */
	__u64 throttled_ns; /* so far */
	__u64 group; /* the thread's, as in struct thread_state */
	__u32 throttled; /* that group is, since the slice before ended */
	__u32 cpu;
	__u32 known; /* 0: it is not known where the next slice began */
	__u32 unused;
};

/*
 * Was the thread's group throttled in @slice, so that it did not wait for the CPU? It is from
 * the end of a slice of its own on, until it has one again.
 */
static __always_inline bool was_throttled(struct slice_walk *walk, const struct slice *slice)
{
	if (!walk->group || slice->group != walk->group)
		return walk->throttled;
	walk->throttled = slice->throttled;
	return false;
}

/* How much of what begins at walk->charged_ns and ends at @end_ns is in the window. */
static __always_inline __u64 walk_to(struct slice_walk *walk, __u64 end_ns)
{
	__u64 from_ns = walk->charged_ns > walk->start_ns ? walk->charged_ns : walk->start_ns;

	if (end_ns > walk->stop_ns)
		end_ns = walk->stop_ns;
	if (end_ns > walk->charged_ns)
		walk->charged_ns = end_ns;
	return length_since(end_ns, from_ns);
}

/* Charges the next slice. Not static, so that it is verified once, by itself. */
__noinline int charge_next_slice(struct slice_walk *walk)
{
	struct thread_record *record;
	struct owner_record *owner;
	struct slice *slice;
	bool known, throttled;
	__u64 length_ns;

	if (!options.accounting || !walk)
		return 1;
	record = thread_record_at(walk->record);
	slice = slice_at(walk->cpu, walk->number);
	if (!slice || !record)
		return 1;
	length_ns = walk_to(walk, slice->end_ns);
	throttled = was_throttled(walk, slice);
	known = walk->known && slice->known;
	walk->known = true;
	walk->number++;
	if (throttled)
		walk->throttled_ns += length_ns;
	if (!length_ns || throttled)
		return 0;
	if (!known) {
		record->account.unknown_tasks_ns += length_ns;
		return 0;
	}
	owner = find_owner_record(record, 0, slice->prev.task);
	if (!owner) {
		record->account.other_tasks_ns += length_ns;
		return 0;
	}
	if (!owner->waits)
		owner->info = slice->prev;
	charge_owner(owner, walk->wait_ns, length_ns);
	return 0;
}

STEP(charge_next_slice, struct slice_walk)

/*
 * Slices that are walked at most, some 10 us under the run queue's lock, and
 * where there is no bpf_loop(), before Linux 5.17. There so many are walked in a function that is
 * verified once, as the verifier follows each turn of a loop.
 */
#define SLICES_WALKED 512
#define SLICES_WITHOUT_LOOP 64
#define SLICES_OF_A_PART 8

/* Charges a part of the slices up to @newest. Was that the last? Not static, as take_record(). */
__noinline int charge_part_of_slices(struct slice_walk *walk, __u64 newest)
{
	if (HAS_LOOP || !walk)
		return 1;
	for (int i = 0; i < SLICES_OF_A_PART; i++) {
		if (walk->number > newest || charge_next_slice(walk))
			return 1;
	}
	return 0;
}

/* Charges the slices that ended; whose the overwritten ones were is not known. */
static __always_inline void charge_slices(struct slice_walk *walk, __u64 newest)
{
	__u64 most = HAS_LOOP ? SLICES_WALKED : SLICES_WITHOUT_LOOP;
	__u64 count = newest + 1 - walk->number;

	if (most > options.slices)
		most = options.slices;
	if (count > most) {
		walk->number = newest + 1 - most;
		walk->known = false;
		count = most;
	}
	if (HAS_LOOP) {
		bpf_loop(count, charge_next_slice_again, walk, 0);
		return;
	}
	for (int i = 0; i < SLICES_WITHOUT_LOOP / SLICES_OF_A_PART; i++) {
		if (charge_part_of_slices(walk, newest))
			return;
	}
}

/*
 * Charges the end of a wait, @length_ns, to the current task: all of it if it is @known that no
 * other had the CPU, else since it was taken to run. Returns the rest. Not static, so that it is
 * verified once, by itself.
 */
__noinline __u64 charge_current(struct thread_record *record, __u64 wait_ns, __u64 length_ns,
				bool known)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner_record *owner;
	__u64 ran_ns = length_ns;

	if (!options.accounting || !record)
		return length_ns;
	if (!known)
		ran_ns = current_ran_ns();
	if (ran_ns > length_ns)
		ran_ns = length_ns;
	if (!ran_ns)
		return length_ns;
	owner = find_owner_record(record, 0, task->pid);
	if (!owner) {
		record->account.other_tasks_ns += ran_ns;
		return length_ns - ran_ns;
	}
	if (!owner->waits)
		note_task(&owner->info, task);
	charge_owner(owner, wait_ns, ran_ns);
	return length_ns - ran_ns;
}

/*
 * Charges the slices that ended in @thread's wait for @cpu, and sums up what it was throttled.
 * Returns up to when that is. Not static, so that it is verified once, by itself.
 */
__noinline __u64 charge_ended_slices(struct thread_record *record, struct thread *thread, __u32 cpu,
				     const struct timestamp *timestamp)
{
	struct run_queue *run_queue = run_queue_of(cpu);
	struct slice_walk walk = {.cpu = cpu, .known = true};

	if (!options.accounting || !record || !thread || !timestamp || !run_queue)
		return 0;
	walk.record = record->number;
	walk.wait_ns = thread->ready_since_ns;
	walk.charged_ns = thread->since_ns;
	walk.start_ns = timestamp->start_ns;
	walk.stop_ns =
		timestamp->now_ns < timestamp->stop_ns ? timestamp->now_ns : timestamp->stop_ns;
	walk.number = thread->first_slice;
	walk.group = thread->group;
	charge_slices(&walk, run_queue->slices);
	thread->throttled_ns = walk.throttled_ns;
	thread->throttled = walk.throttled;
	return walk.charged_ns;
}

/* Charges what ended slices had of @thread's wait for @cpu. Returns how much is left. */
static __always_inline __u64 charge_waited_slices(struct thread_record *record,
						  struct thread *thread, __u32 cpu,
						  const struct timestamp *timestamp)
{
	struct run_queue *run_queue = run_queue_of(cpu);
	__u64 since_ns = thread->since_ns;

	thread->throttled_ns = 0;
	thread->throttled = 0;
	if (run_queue && thread->wait_cpu == cpu + 1 && run_queue->slices >= thread->first_slice)
		since_ns = charge_ended_slices(record, thread, cpu, timestamp);
	return clip(timestamp, since_ns);
}

/*
 * Charges what is not charged yet of @thread's wait for @cpu, which ends now or goes on
 * elsewhere. If it ends @here, the current task has had the CPU, see charge_current().
 */
static __always_inline void charge_wait(struct thread_record *record, struct thread *thread,
					__u32 cpu, bool here, bool known,
					const struct timestamp *timestamp)
{
	__u64 length_ns = charge_waited_slices(record, thread, cpu, timestamp);

	if (!length_ns)
		return;
	if (thread->throttled &&
	    (!here || (__u64)group_of(bpf_get_current_task_btf()) != thread->group)) {
		thread->throttled_ns += length_ns;
		return;
	}
	if (here && thread->wait_cpu == cpu + 1)
		length_ns = charge_current(record, thread->ready_since_ns, length_ns, known);
	record->account.unknown_tasks_ns += length_ns;
}

#endif
