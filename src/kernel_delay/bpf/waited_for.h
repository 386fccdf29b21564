/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a thread waits for in its call: an open file, or a lock, as far as glibc's mutexes show.
 */
#ifndef KERNEL_DELAY_WAITED_FOR_H
#define KERNEL_DELAY_WAITED_FOR_H

#include "accounting.h"
#include "target.h"
#include "thread.h"

/*
 * The open file that a thread sleeps in a call on: its descriptor, and its inode, by which user
 * space sees later whether that descriptor is still of the same.
 */

/* include/uapi/asm-generic/poll.h, the same from 5.14 to 7.2. */
struct pollfd {
	__s32 fd;
	__s16 events;
	__s16 revents;
};

/*
 * What a @descriptor of these open @files is of. By helpers alone: what a pointer costs the
 * verifier is above kernel_run_queue().
 */
static __always_inline struct file *open_file(const struct files_struct *files, __u32 descriptor)
{
	struct file *file = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(files, fdt, fd) + descriptor);
	return file;
}

/* The file that a @descriptor is of, as struct sleep_record has it. */
static __always_inline __u64 key_of_file(const struct file *file, __u32 descriptor)
{
	return BPF_CORE_READ(file, f_inode, i_ino) << 32 | (descriptor + 1);
}

static __always_inline __u64 file_at(const struct task_struct *task, __u32 descriptor)
{
	return key_of_file(open_file(BPF_CORE_READ(task, files), descriptor), descriptor);
}

/*
 * The same of the call of that @number. Outside of a call, as of a number that has no slot for
 * flags, nothing is behind it that user space takes for a file.
 */
static __always_inline __u64 file_of(const struct task_struct *task, __u32 descriptor, __u32 number)
{
	if (!options.accounting ||
	    !(options.syscall_flags[0][number & (FLAGGED_SYSCALLS - 1)] & SYSCALL_HAS_FILE))
		return 0;
	return file_at(task, descriptor);
}

/* The arguments of a poll(2) or ppoll(2): an array, and how many are in it. */
static __always_inline __u64 polled_array(struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;

#if defined(__TARGET_ARCH_x86)
	return call->di;
#elif defined(__TARGET_ARCH_arm64)
	return call->regs[0];
#endif
}

static __always_inline __u64 polled_count(struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;

#if defined(__TARGET_ARCH_x86)
	return call->si;
#elif defined(__TARGET_ARCH_arm64)
	return call->regs[1];
#endif
}

/*
 * @thread, the current one, enters a poll of the files of @polled, an array: which is it, if it is
 * one? It sleeps on no descriptor that is not open. Not static, as take_record().
 */
__noinline int note_polled(struct thread *thread, __u64 polled, __u64 count)
{
	struct pollfd only;

	if (!thread)
		return 0;
	thread->polled_file = 0;
	if (count == 1 && !bpf_probe_read_user(&only, sizeof(only), (void *)polled) && only.fd >= 0)
		thread->polled_file = file_at(bpf_get_current_task_btf(), only.fd);
	return 0;
}

/* The same of the call that it enters, of those @flags. */
static __always_inline void note_polled_file(struct thread *thread, __u8 flags,
					     struct pt_regs *regs)
{
	if (options.accounting && flags & SYSCALL_POLLS_ARRAY)
		note_polled(thread, polled_array(regs), polled_count(regs));
}

/*
 * What @task, which sleeps, sleeps on: of a poll what was noted, unless its entry was missed. The
 * number of a 32-bit call means another one, and its arguments are elsewhere: user space passes
 * over its file.
 */
static __always_inline __u64 sleep_file(const struct thread *thread, struct task_struct *task)
{
	struct pt_regs___syscall *regs;
	__u32 number;

	if (!HAS_TASK_PT_REGS)
		return 0;
	regs = (struct pt_regs___syscall *)bpf_task_pt_regs(task);
	number = syscall_number(regs);
	if (options.syscall_flags[0][number & (FLAGGED_SYSCALLS - 1)] & SYSCALL_POLLS_ARRAY)
		return thread->mode == MODE_USER ? 0 : thread->polled_file;
	return file_of(task, first_argument(regs), number);
}

/*
 * Is the futex call a wait for a lock, and who owns it? glibc's mutexes, but for
 * those that processes share, wait by FUTEX_WAIT_PRIVATE while the futex is 2,
 * locked and waited for, and have the owner's thread id 8 bytes after it
 * (nptl/lowlevellock.c and sysdeps/nptl/bits/struct_mutex.h, glibc 2.26 to
 * 2.42). Other locks wait so too, as malloc()'s and GLib's, and have anything
 * behind them: what a mutex can't have there shows them. Whatever else looks
 * like one has no thread's id in its place, which user space sees to.
 */
#define FUTEX_CMD_MASK 0x7f
#define FUTEX_PRIVATE_FLAG 0x80
#define FUTEX_WAIT 0
#define LOCKED_AND_WAITED_FOR 2

/* PTHREAD_MUTEX_TIMED_NP to PTHREAD_MUTEX_ADAPTIVE_NP; and whether it may be elided. */
#define MUTEX_TYPES 0x3
#define MUTEX_RECURSIVE 1
#define MUTEX_ELISION 0x300

/* struct __pthread_mutex_s, of 64 bits and of 32; both were read as far as the first is long. */
union mutex {
	struct {
		__u32 lock;
		__u32 count;
		__u32 owner;
		__u32 users;
		__u32 kind;
		__u32 spins;
		__u64 list[2]; /* of robust ones, which wait in another way */
	} native;
	struct {
		__u32 lock;
		__u32 count;
		__u32 owner;
		__u32 kind;
		__u32 users;
	} compat;
};

/* The address of the lock that the futex call is to wait for, 0 if it is none. */
static __always_inline __u64 lock_of(__u64 syscall, struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;
	__u64 lock, operation, value;

#if defined(__TARGET_ARCH_x86)
	if (syscall & COMPAT_SYSCALL) {
		lock = call->bx;
		operation = call->cx;
	} else {
		lock = call->di;
		operation = call->si;
	}
	value = call->dx;
#elif defined(__TARGET_ARCH_arm64)
	lock = call->regs[0];
	operation = call->regs[1];
	value = call->regs[2];
#endif
	if ((operation & (FUTEX_CMD_MASK | FUTEX_PRIVATE_FLAG)) ==
		    (FUTEX_WAIT | FUTEX_PRIVATE_FLAG) &&
	    (__u32)value == LOCKED_AND_WAITED_FOR)
		return lock;
	return 0;
}

static __always_inline bool is_kind_of_mutex(__u32 kind, __u32 count)
{
	bool recursive = (kind & MUTEX_TYPES) == MUTEX_RECURSIVE;

	return !(kind & ~(MUTEX_TYPES | MUTEX_ELISION)) && recursive == !!count;
}

/* Who owns the mutex, 0 if it can't be one that is owned. */
static __always_inline __u32 owner_of(const union mutex *mutex, __u64 syscall)
{
	if (syscall & COMPAT_SYSCALL) {
		if (!mutex->compat.users ||
		    !is_kind_of_mutex(mutex->compat.kind, mutex->compat.count))
			return 0;
		return mutex->compat.owner;
	}
	if (!mutex->native.users || mutex->native.list[0] || mutex->native.list[1] ||
	    !is_kind_of_mutex(mutex->native.kind, mutex->native.count))
		return 0;
	return mutex->native.owner;
}

/* @thread is to wait for @lock, or for none. Not static, so that it is verified once, by itself. */
__noinline int note_lock(struct thread *thread, __u64 syscall, __u64 lock)
{
	union mutex mutex = {};

	if (!thread)
		return 0;
	if (lock)
		bpf_probe_read_user(&mutex, sizeof(mutex), (void *)lock);
	thread->lock = lock;
	thread->futex_owner = owner_of(&mutex, syscall);
	return 0;
}

/*
 * What the owner of a lock did while it was waited for. That is known when the owner itself
 * ends the wait: it runs then, and has the last times in mind that it was off its CPU.
 */

/* Keeps in mind that @thread was in its state until now, if that is off the CPU. */
static __always_inline void keep_off_cpu_time(struct thread *thread,
					      const struct timestamp *timestamp)
{
	struct off_cpu_time *time;

	if (length_since(timestamp->now_ns, thread->since_ns) < OFF_CPU_TIME_NS)
		return;
	time = &thread->off_cpu_times[thread->off_cpu_count++ & (OFF_CPU_TIMES - 1)];
	time->from_ns = thread->since_ns;
	time->to_ns = timestamp->now_ns;
	time->state = thread->state;
	time->syscall = thread->mode == MODE_SYSCALL ? thread->syscall : NO_SYSCALL;
	time->stack = thread->sleep_since_ns == thread->since_ns ? thread->sleep_stack : 0;
}

/*
 * Votes for where an owner was blocked most: what has more than all others together wins
 * (Boyer and Moore), and whatever wins was one of them.
 */
static __always_inline void vote(struct owner_activity *activity, __u64 syscall, __u32 stack,
				 __u64 votes_ns)
{
	if (activity->syscall == syscall && activity->stack == stack) {
		activity->vote_ns += votes_ns;
	} else if (activity->vote_ns >= votes_ns) {
		activity->vote_ns -= votes_ns;
	} else {
		activity->vote_ns = votes_ns - activity->vote_ns;
		activity->syscall = syscall;
		activity->stack = stack;
	}
}

/*
 * Adds to what is known of the owner of the lock that @thread slept for: the time before the
 * newest @passed ones that @owner was off its CPU, as far as it lies in the window and behind
 * @since_ns. Returns whether that was the last one that does. Not static, as take_record().
 */
__noinline int add_off_cpu_time(struct thread *thread, const struct thread *owner,
				const struct timestamp *timestamp, __u64 since_ns, __u32 passed)
{
	const struct off_cpu_time *time;
	__u64 from_ns, to_ns, length_ns;
	struct owner_activity *activity;

	if (!thread || !owner || !timestamp)
		return 1;
	activity = &thread->owner;
	time = &owner->off_cpu_times[(owner->off_cpu_count - 1 - passed) & (OFF_CPU_TIMES - 1)];
	if (time->to_ns <= since_ns)
		return 1;
	from_ns = time->from_ns > since_ns ? time->from_ns : since_ns;
	to_ns = time->to_ns < timestamp->stop_ns ? time->to_ns : timestamp->stop_ns;
	length_ns = length_since(to_ns, from_ns);
	switch (time->state) {
	case STATE_BLOCKED:
		activity->blocked_ns += length_ns;
		vote(activity, time->syscall, time->stack, length_ns);
		break;
	case STATE_READY_WOKEN:
	case STATE_READY_PREEMPTED:
		activity->ready_ns += length_ns;
		break;
	case STATE_STOPPED:
	case STATE_THROTTLED:
	case STATE_FROZEN:
		activity->held_ns += length_ns;
		break;
	}
	return 0;
}

/* Since when all that @thread was off its CPU is in mind. */
static __always_inline __u64 remembers_since_ns(const struct thread *thread)
{
	if (thread->off_cpu_count < OFF_CPU_TIMES)
		return 0;
	return thread->off_cpu_times[thread->off_cpu_count & (OFF_CPU_TIMES - 1)].from_ns;
}

/* A way back through the times that the owner of a lock was off its CPU. */
struct owner_walk {
	struct thread *thread; /* that waited for the lock */
	const struct thread *owner;
	const struct timestamp *timestamp;
	__u64 since_ns;
	__u32 passed;
};

static __always_inline int add_next_time(struct owner_walk *walk)
{
	return add_off_cpu_time(walk->thread, walk->owner, walk->timestamp, walk->since_ns,
				walk->passed++);
}

STEP(add_next_time, struct owner_walk)

/*
 * Notes what @owner, which runs, did in the window while @thread slept. Not static, so that it
 * is verified once, by itself.
 */
__noinline int sum_up_owner(struct thread *thread, const struct thread *owner,
			    const struct timestamp *timestamp)
{
	struct owner_walk walk = {thread, owner, timestamp, 0, 0};
	__u64 since_ns, from_ns;

	if (!thread || !owner || !timestamp)
		return 0;
	since_ns = thread->since_ns > timestamp->start_ns ? thread->since_ns : timestamp->start_ns;
	from_ns = remembers_since_ns(owner);
	if (since_ns < from_ns)
		since_ns = from_ns;
	__builtin_memset(&thread->owner, 0, sizeof(thread->owner));
	thread->owner.syscall = NO_SYSCALL;
	walk.since_ns = since_ns;
	REPEAT(OFF_CPU_TIMES, add_next_time, &walk);
	thread->owner.known_ns = clip(timestamp, since_ns);
	return 0;
}

/* @thread, which slept for a lock, is woken by @current: if that owns it, it is known what it did.
 */
static __always_inline void note_owner(struct thread *thread, struct task_struct *current,
				       const struct timestamp *timestamp)
{
	struct thread *owner;

	if (thread->mode != MODE_SYSCALL || !thread->futex_owner || !is_target(current))
		return;
	owner = bpf_task_storage_get(&threads, current, NULL, 0);
	if (owner && owner->own_tid == thread->futex_owner)
		sum_up_owner(thread, owner, timestamp);
}

/* Adds what was noted of one wait to that of all. Not static, see above. */
__noinline int add_activity(struct owner_activity *all, const struct owner_activity *one)
{
	if (!all || !one)
		return 0;
	if (!all->known_ns)
		all->syscall = NO_SYSCALL;
	all->known_ns += one->known_ns;
	all->blocked_ns += one->blocked_ns;
	all->ready_ns += one->ready_ns;
	all->held_ns += one->held_ns;
	vote(all, one->syscall, one->stack, one->vote_ns);
	return 0;
}

/* Notes that @thread, whose @task was in that poll(2) before the programs, polls @only a file. */
static __always_inline void note_polled_before(struct thread *thread, struct task_struct *task,
					       const struct pollfd *only)
{
	__u64 file;

	if (only->fd < 0)
		return;
	file = file_at(task, only->fd);
	/* The thread may be off to its next call by now. */
	if (!__sync_val_compare_and_swap(&thread->polled_file, 0, file) && thread->since_ns)
		__sync_val_compare_and_swap(&thread->polled_file, file, 0);
}

#endif
