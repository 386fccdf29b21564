/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What threads did one after the other: slices.
 */
#ifndef KERNEL_DELAY_TIMELINE_RECORDS_H
#define KERNEL_DELAY_TIMELINE_RECORDS_H

#include "thread_records.h"

/* What a slice of a timeline is: enum scheduler_state, or one of these. Fewer than 64. */
enum slice_kind {
	SLICE_CALL = 16, /* in a call, of the number @what */
	SLICE_COMPAT_CALL, /* by the 32-bit ABI */
	SLICE_UNSEEN_CALL, /* whose entry was not seen */
	SLICE_FAULT,
	SLICE_UNKNOWN_MODE, /* an end of it was missed */
	SLICE_HARD_IRQ, /* @what: the vector, or the low half of the handler's struct irqaction */
	SLICE_SOFT_IRQ, /* @what: its vector */
	/* User space's own: */
	SLICE_PROGRAM, /* in none of the modes above */
	SLICE_LOST_STATES, /* for which there was no room */
	SLICE_LOST_MODES,
};

/* What a timeline gives up when there is little room, the first of these first. */
#define SLICE_CLASSES 4
enum slice_class {
	SLICE_OF_INTERRUPT, /* of virtual machines' code too */
	SLICE_OF_STATE,
	SLICE_OF_MODE,
};

/* Programs that may be at once past the test whether there is room. */
#define SLICES_AT_ONCE 64

/* One thing that a thread did, or was kept by; reported when it is over. */
struct timeline_slice {
	__u64 since_ns; /* 0: before anything was known */
	__u64 until_ns;
	__u32 thread; /* its identity */
	__u32 what; /* by its kind; of a state, the CPU waited for, and 1, or the sleep_stack */
	__u32 number; /* in its ring, the low half; written last, when the rest is valid */
	__u16 order; /* of a mode, among the thread's */
	__u8 kind; /* enum slice_kind, or enum scheduler_state */
	__u8 mode; /* enum execution_context, of the thread meanwhile */
};

/* A CPU's ring of slices. What each side writes is in a cache line of its own. */
struct timeline_ring {
	__u64 head; /* slices that were reported */
	__u64 lost[SLICE_CLASSES]; /* that found no room */
	__u64 unused[3];
	__u64 tail; /* slices that were read */
	__u64 unused_behind[7];
};

/*
 * A thread's timeline of its newest round: in the first half of its slices the first that were
 * reported, and in the other the last, in a ring.
 */
struct round_timeline {
	__u64 number; /* in its ring, 0: it is free */
	__u64 thread; /* whose it is, by identity */
	__u64 reported; /* slices */
	__u64 modes_before; /* that were reported of the thread, when the round began */
};

#endif
