/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What chains.h reports of each followed thread: when it left a CPU, got one, and was woken. Whom
 * its process forked, who is followed too. And who stopped a process, of all.
 */
#ifndef KERNEL_DELAY_CHAIN_RECORDS_H
#define KERNEL_DELAY_CHAIN_RECORDS_H

#define CHAIN_FRAMES 16
#define CHAIN_COMM 16

enum chain_event_kind {
	CHAIN_LEFT_CPU,
	CHAIN_GOT_CPU,
	CHAIN_WOKEN,
	CHAIN_SEEN, /* by the iterator: it is in that state since then, or longer */
	CHAIN_FORKED, /* its process was, by the waker's: it is followed from now on */
	CHAIN_SIGNALLED, /* its process was sent a signal that stops it: by any process, to any */
};

/* Ids are in the tool's PID namespace, 0 for what is not there. */
struct chain_event {
	__u64 now_ns;
	__u64 inode; /* of the descriptor that is the call's first argument; 0: not known */
	__u64 frames[CHAIN_FRAMES]; /* where it sleeps, the innermost first; ends with 0 */
	__u32 kind; /* enum chain_event_kind */
	__u32 state; /* that it is in from now on, enum scheduler_state */
	__u32 tid;
	__u32 process;
	/*
	 * The other task: who woke it, who gets the CPU that it left without sleeping, who had the
	 * CPU that it got, who forked it, who sent the signal. 0: none, or the idle task.
	 */
	__u32 waker;
	__u32 waker_process;
	__u32 waker_kind; /* in which context the waker was, enum waker_kind */
	__u32 running; /* who had the CPU of a thread that was woken; 0: none, or not known */
	__s32 syscall; /* the number, negative where it is in none that is known */
	__u32 descriptor;
	char waker_comm[CHAIN_COMM];
	char comm[CHAIN_COMM];
	__u32 device; /* of the descriptor's file system, as the kernel has it; 0: not known */
	__u32 switches; /* that the thread left a CPU so far: a gap shows lost events */
	__u32 tgid; /* its process, as the initial PID namespace numbers it */
	__u32 ended_child; /* the waker's process as the woken thread numbers it, if it is a child
			    * that ends; or 0
			    */
	__u32 was_frozen; /* 1: it was, by cgroup v1's freezer, until it is woken */
};

#endif
