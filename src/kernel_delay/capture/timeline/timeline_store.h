/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline's slices from the programs' rings, kept until their window is reported.
 *
 * A thread of its own drains the rings, since a busy process has millions of slices a second.
 * What is kept is bounded: when that bites, interrupts are given up first, then states, and
 * then what comes last.
 */
#ifndef KERNEL_DELAY_TIMELINE_STORE_H
#define KERNEL_DELAY_TIMELINE_STORE_H

#include <stdint.h>

#define NO_CPU ((uint16_t)-1)

/* A slice, clipped to the window. */
struct shown_slice {
	uint64_t start_ns;
	uint64_t stop_ns;
	uint32_t thread; /* its place among those that were asked for */
	uint32_t what; /* as in struct timeline_slice, as are the next two */
	uint16_t cpu; /* that it ran on, or waited for; NO_CPU */
	uint8_t kind;
	uint8_t mode;
	uint32_t unused;
};

/* What a thread does when the window ends, and since when; it may have been reported by then. */
struct last_slices {
	uint64_t state_since_ns;
	uint64_t mode_since_ns;
	uint64_t throttled_ns; /* of its state, in the window */
	uint64_t blocked_until_ns; /* as in struct thread_state */
	uint64_t frozen_since_ns; /* the same */
	uint32_t thread; /* its identity */
	uint32_t state_what;
	uint32_t mode_what;
	uint8_t state; /* kinds of slices; SLICE_LOST_STATES and SLICE_LOST_MODES: not known */
	uint8_t mode_kind;
	uint8_t mode;
	uint8_t unused;
};

struct taken_timeline {
	struct shown_slice *slices; /* by thread, and then by time; the caller frees them */
	uint64_t count;
	uint64_t lost[4]; /* since the last call, by enum slice_class */
};

struct timeline_store;

/*
 * Starts draining the rings of @cpus CPUs with room for @per_cpu slices each: two arrays of
 * struct timeline_ring and struct timeline_slice. Keeps at most @max_slices. NULL and errno on
 * failure.
 */
struct timeline_store *timeline_store_open(void *rings, const void *slices, uint32_t cpus,
					   uint32_t per_cpu, uint64_t max_slices);
void timeline_store_close(struct timeline_store *store);

/*
 * Takes the slices of the window [@start_ns, @stop_ns), which must be over, of the threads in
 * @threads, sorted by identity; forgets all that ended before its end. 0, or -1 and errno.
 */
int timeline_store_take(struct timeline_store *store, uint64_t start_ns, uint64_t stop_ns,
			const struct last_slices *threads, uint32_t count,
			struct taken_timeline *taken);

/* Forgets what ended until @stop_ns, and what was lost. */
void timeline_store_forget(struct timeline_store *store, uint64_t stop_ns);

#endif
