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
#include "waker_stack.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sleep_record);
} sleep_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLEEP_STACKS);
	__type(key, __u32);
	__type(value, struct sleep_stack);
} sleep_stacks SEC(".maps");

/* Where a stack is taken to: a waker can interrupt the iterator, and none another. */
enum stack_reader { READ_BY_WAKER, READ_BY_ITERATOR, STACK_READERS };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, STACK_READERS);
	__type(key, __u32);
	__type(value, struct sleep_stack);
} taken_stacks SEC(".maps");

/* include/linux/preempt.h, the same from 5.14 to 6.18: what of it counts which context. */
#define SERVING_SOFT_IRQ 0x00000100
#define HARD_IRQS_AND_NMI 0x00ff0000

#if defined(__TARGET_ARCH_x86)
/* With other variables in it, from 6.2 to 6.14; arch/x86/include/asm/current.h. */
struct pcpu_hot {
	int preempt_count;
} __attribute__((preserve_access_index));

/*
 * The variable that counts the contexts which a CPU is in. The kernel's symbols may have
 * no data: it is found by how far it is behind the CPU's run queue.
 */
static __always_inline bool read_contexts(struct task_struct *current, __u32 *contexts)
{
	struct rq *rq = kernel_run_queue(current);
	void *address = (void *)rq + options.contexts_distance;

	if (!rq || !options.contexts_distance || (__u32)rq->cpu != bpf_get_smp_processor_id())
		return false;
	if (bpf_core_field_exists(struct pcpu_hot, preempt_count))
		address += bpf_core_field_offset(struct pcpu_hot, preempt_count);
	return !bpf_probe_read_kernel(contexts, sizeof(*contexts), address);
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline bool read_contexts(struct task_struct *current, __u32 *contexts)
{
	*contexts = current->thread_info.preempt_count;
	return true;
}
#endif

/*
 * Is there a signal for @task? Who sends one wakes it, and has no part in what it waits for;
 * kernel/signal.c:complete_signal().
 */
static __always_inline bool has_signal(struct task_struct *task)
{
	__u64 pending = task->pending.signal.sig[0];

	pending |= task->signal->shared_pending.signal.sig[0];
	return pending & ~task->blocked.sig[0];
}

static __always_inline enum waker_kind waker_kind(struct task_struct *task,
						  struct task_struct *current)
{
	__u32 contexts = 0;

	if (has_signal(task) || !read_contexts(current, &contexts))
		return WAKER_UNKNOWN;
	if (contexts & HARD_IRQS_AND_NMI)
		return WAKER_HARD_IRQ;
	if (contexts & SERVING_SOFT_IRQ)
		return WAKER_SOFT_IRQ;
	/* The idle task only ever does what an interrupt of another CPU asked it for. */
	return current->pid ? WAKER_THREAD : WAKER_HARD_IRQ;
}

static __always_inline struct sleep_record *sleep_record_at(__u64 number)
{
	__u32 slot = number & (options.sleep_records - 1);

	return bpf_map_lookup_elem(&sleep_records, &slot);
}

/*
 * The slot of a stack, and 1; 0 if there is none left. Not static, so that it is
 * verified once, by itself.
 */
__noinline __u32 keep_stack(struct sleep_stack *taken)
{
	__u64 hash = 14695981039346656037ULL, found; /* FNV-1a, by words */
	struct sleep_stack *kept;
	__u32 slot;

	if (!taken)
		return 0;
	for (int i = 0; i < SLEEP_FRAMES; i++)
		hash = (hash ^ taken->frames[i]) * 1099511628211ULL;
	hash |= 1;
	for (int i = 0; i < SLEEP_STACKS_TRIED; i++) {
		slot = ((hash >> 32) + i) & (SLEEP_STACKS - 1);
		kept = bpf_map_lookup_elem(&sleep_stacks, &slot);
		if (!kept)
			return 0;
		found = *(volatile __u64 *)&kept->hash;
		if (!found)
			found = __sync_val_compare_and_swap(&kept->hash, 0, hash);
		if (!found) {
			__builtin_memcpy(kept->frames, taken->frames, sizeof(kept->frames));
			barrier();
			kept->written = 1;
			return slot + 1;
		}
		if (found == hash)
			return slot + 1;
	}
	return 0;
}

/* Where @task sleeps: as keep_stack() has it; 0 if the kernel does not tell. */
static __noinline __u32 sleep_stack(struct task_struct *task, __u32 reader)
{
	struct sleep_stack *taken = bpf_map_lookup_elem(&taken_stacks, &reader);

	if (!taken)
		return 0;
	__builtin_memset(taken->frames, 0, sizeof(taken->frames));
	if (bpf_get_task_stack(task, taken->frames, sizeof(taken->frames), 0) <= 0)
		return 0;
	return keep_stack(taken);
}

static __always_inline bool is_long_sleep(__u64 since_ns, __u64 now_ns)
{
	return length_since(now_ns, since_ns) >= options.sleep_ns;
}

/* thread.sleep_record of one that was not worth a look. */
#define UNSEEN_SLEEP ((__u64)-1)

struct sleep_key {
	__u64 syscall;
	__u32 stack;
	__u32 waker; /* its id in the initial PID namespace, 0 for an interrupt */
	__u16 waker_kind;
	__u16 uninterruptible;
	__u32 waker_stack;
};

static __always_inline __u64 *sleeps_of(struct thread_record *thread, const struct sleep_key *key)
{
	__u32 list = key->stack ^ key->waker ^ key->waker_stack;

	barrier_var(list);
	return &thread->sleeps[list & (SLEEP_LISTS - 1)];
}

static __always_inline void begin_sleep_record(struct sleep_record *record,
					       const struct thread_record *thread,
					       const struct sleep_key *key)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->thread = thread->number;
	record->syscall = key->syscall;
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

/*
 * The number of a sleep's record, 0 if there is no room; verified by itself, as above. A list
 * is full of single wakers before it is of where the thread slept.
 */
__noinline __u64 find_sleep(struct thread_record *thread, struct sleep_key *key)
{
	struct sleep_record *record;
	__u64 number, earlier = 0;
	__u32 found;

	if (!thread || !key)
		return 0;
	number = *sleeps_of(thread, key);
	for (found = 0; found < SLEEPS_SEARCHED; found++) {
		if (!number)
			break;
		record = sleep_record_at(number);
		if (!record)
			return 0;
		if (is_of_earlier_round(record->thread, thread->number))
			earlier = number;
		else if (record->stack == key->stack && record->syscall == key->syscall &&
			 record->waker_stack == key->waker_stack &&
			 record->waker.task == key->waker &&
			 record->waker_kind == key->waker_kind &&
			 record->uninterruptible == key->uninterruptible)
			return number;
		number = record->next;
	}
	if (earlier)
		return renew_sleep_record(thread, key, earlier);
	if (number || (found >= SLEEPS_PER_LIST && key->waker))
		return 0;
	return new_sleep_record(thread, key);
}

/* The same for @key; of a waker for whom there is no room, that of those who are not told apart. */
static __always_inline __u64 find_sleep_of_waker(struct thread_record *thread,
						 struct sleep_key *key)
{
	__u64 number = find_sleep(thread, key);

	if (number || !key->waker)
		return number;
	key->waker = 0;
	key->waker_stack = 0;
	key->waker_kind = WAKER_UNKNOWN;
	return find_sleep(thread, key);
}

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

/* @task, which is about to be woken, is still where it sleeps; its pi_lock is held. */
static __always_inline void note_waking(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct task_struct *current = bpf_get_current_task_btf();
	struct sleep_key key = {};
	struct thread_record *record;
	struct sleep_record *sleep;
	struct timestamp timestamp;
	bool is_in_window;

	if (!thread || thread->state != STATE_BLOCKED)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	is_in_window = timestamp.epoch && thread->since_ns < timestamp.stop_ns;
	if (!is_in_window && !options.totals)
		return;
	thread->sleep_stack = 0;
	thread->sleep_record = UNSEEN_SLEEP;
	thread->sleep_since_ns = thread->since_ns;
	thread->owner.known_ns = 0;
	thread->woken_ns = timestamp.now_ns;
	thread->woken_on = bpf_get_smp_processor_id() + 1;
	if (!is_in_window || !is_worth_a_look(thread, timestamp.now_ns))
		return;
	key.stack = sleep_stack(task, READ_BY_WAKER);
	key.uninterruptible = !!(task->__state & TASK_UNINTERRUPTIBLE);
	key.waker_kind = waker_kind(task, current);
	if (key.waker_kind == WAKER_THREAD) {
		key.waker = current->pid;
		if (options.waker_stacks)
			key.waker_stack = waker_stack();
		note_owner(thread, current, &timestamp);
	}
	/* Before there is a record, which has it from here in what it begins with. */
	thread->sleep_stack = key.stack;
	thread->uninterruptible = key.uninterruptible;
	thread->sleep_is_short = !is_long_sleep(thread->since_ns, timestamp.now_ns);
	thread->sleep_record = 0;
	record = find_record(thread, task, &timestamp);
	if (!record || !clip(&timestamp, thread->since_ns))
		return;
	key.syscall = thread->mode == MODE_SYSCALL ? thread->syscall : NO_SYSCALL;
	thread->sleep_record = find_sleep_of_waker(record, &key);
	sleep = thread->sleep_record ? sleep_record_at(thread->sleep_record) : NULL;
	if (sleep && key.waker && !sleep->sleeps)
		note_task(&sleep->waker, current);
}

/*
 * When @thread is woken, that is now. On the CPU where it was about to be woken just before
 * (kernel/sched/core.c:try_to_wake_up()) the clock need not be read again.
 */
static __always_inline __u64 wakeup_ns(const struct thread *thread)
{
	if (thread->sleep_since_ns == thread->since_ns &&
	    thread->woken_on == bpf_get_smp_processor_id() + 1)
		return thread->woken_ns;
	return bpf_ktime_get_ns();
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

	if (!record || !length_ns)
		return;
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

#endif
