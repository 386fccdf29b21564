/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Rounds of threads, and totals of all their time.
 */
#ifndef KERNEL_DELAY_ROUND_RECORDS_H
#define KERNEL_DELAY_ROUND_RECORDS_H

#include "thread_records.h"

/* What a struct round_notice reports. */
enum round_notice_kind {
	ROUND_IS_LONG,
	ROUND_THREAD_ENDED, /* its records are of no use any more; the round is not over */
	ROUND_IS_CUT_SHORT, /* as long, and not over: a signal ended its thread */
	ROUND_IS_OFF_CPU, /* as long; a time off the CPUs of a thread that does not poll */
};

/*
 * How a round's thread_record is numbered: its slot, and how often that was used. With
 * each round the number is another, so that no other record of it is valid any more.
 */
#define ROUND_SLOTS 1048576

/* Through the buffer of rounds. The thread's records are user space's from now on. */
struct round_notice {
	__u64 kind; /* enum round_notice_kind */
	__u64 identity;
	__u64 record; /* thread_record.number, 0 if there was no room; of the round if its epoch is
		       */
	__u64 round;
	__u64 start_ns;
	__u64 stop_ns;
	__u64 timeline; /* number of its round_timeline, 0: there is none */
	__u64 running_since_ns; /* when it got on the CPU that it had at the round's end */
	struct task_times begun; /* as it was then; but of ROUND_IS_OFF_CPU */
	struct task_times ended;
	__u64 suppressed; /* control.suppressed_rounds by then */
	__u32 tid;
	__u32 unused;
	char comm[COMM_LENGTH];
	__u64 longest_ns; /* of all rounds of the thread */
	__u64 lengths[HISTOGRAM_BUCKETS]; /* as in struct histogram, of all rounds of the thread */
};

/* What an iterator dumps of each thread's rounds, and of what it does. */
struct thread_rounds {
	__u64 identity;
	__u64 round; /* the number of the newest, 0: none yet */
	__u64 start_ns;
	__u64 stop_ns; /* all ones while it is open */
	__u32 tid;
	__u32 own_tid;
	char comm[COMM_LENGTH];
	__u64 ran_ns; /* by the kernel's count, since the thread was made */
	__u64 runnable_ns; /* the same: in a run queue */
	struct thread_state now;
	__u64 longest_ns;
	__u64 lengths[HISTOGRAM_BUCKETS];
};

/*
 * Where all of a thread's time went since it was registered, in windows and out of them. As in
 * struct account; what is going on is not in it.
 */
struct thread_totals {
	__u64 since_ns; /* when it was registered, 0: there are none */
	__u64 not_alive_ns; /* from then until it was woken first */
	__u64 exit_ns;
	__u64 mode_ns[MODE_SLOTS];
	__u64 state_ns[MODE_SLOTS][STATE_SLOTS];
	__u64 hard_irq_ns[MODE_SLOTS];
	__u64 soft_irq_ns[MODE_SLOTS];
	__u64 ready_ns; /* in whole waits for a CPU, and these by length: as in struct histogram */
	__u64 ready_lengths[HISTOGRAM_BUCKETS];
	__u64 round_ns; /* in whole rounds, and these by length */
	__u64 round_lengths[HISTOGRAM_BUCKETS];
};

/* What is reported of them: of those that are there by an iterator, at its end through a buffer. */
struct reported_totals_head {
	__u64 identity;
	__u64 now_ns;
	__u32 tid;
	__u32 kernel_worker; /* as in struct thread_record */
	char comm[COMM_LENGTH];
	struct thread_state now;
};

struct reported_totals {
	struct reported_totals_head head;
	struct thread_totals totals;
	__u64 state_changes; /* of @now, when all the rest was read */
};

/* All calls of one number that have ended, on one CPU. */
struct syscall_totals {
	__u64 calls;
	__u64 total_ns;
};

/* A CPU's struct syscall_totals: of both tables, and of numbers that these have no slot for. */
#define SYSCALL_TOTALS 2049
#define OTHER_SYSCALLS 2048

#endif
