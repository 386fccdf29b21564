/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
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
#ifndef KERNEL_DELAY_FREEZER_H
#define KERNEL_DELAY_FREEZER_H

#include "length.h"
#include "thread.h"

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
