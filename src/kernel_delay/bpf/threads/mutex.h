/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Which lock a thread is about to wait for, and who owns it, as far as glibc's mutexes tell.
 */
#ifndef KERNEL_DELAY_MUTEX_H
#define KERNEL_DELAY_MUTEX_H

#include "thread.h"

/*
 * Is the futex call a wait for a lock, and who owns it? glibc's mutexes, but for
 * those that processes share, wait by FUTEX_WAIT_PRIVATE while the futex is 2,
 * locked and waited for, and have the owner's thread id 8 bytes after it
 * (nptl/lowlevellock.c and sysdeps/nptl/bits/struct_mutex.h, glibc 2.26 to
 * 2.42). Other locks wait so too, as malloc()'s and GLib's, and have anything
 * behind them: what a mutex can't have there tells them. Whatever else looks
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

#endif
