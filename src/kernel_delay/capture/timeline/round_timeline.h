/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round's timeline, from what the programs kept of it: its first slices and its last.
 */
#ifndef KERNEL_DELAY_ROUND_TIMELINE_H
#define KERNEL_DELAY_ROUND_TIMELINE_H

#include <stdint.h>

#include "timeline_store.h"

/* What is kept of a round: a struct round_timeline, and its part of the slices' map. */
struct kept_round {
	const uint64_t *slices; /* an array of struct timeline_slice */
	uint64_t room; /* in slices; twice a power of two */
	uint64_t reported;
	uint64_t modes_before; /* as in struct round_timeline */
};

/*
 * Makes the slices of the round [@start_ns, @stop_ns), which must be over, and of which nothing is
 * reported any more. What is not kept is shown as lost, but not counted in @taken. 0, or -1 and
 * errno.
 */
int round_timeline_show(const struct kept_round *kept, uint64_t start_ns, uint64_t stop_ns,
			const struct last_slices *last, struct taken_timeline *taken);

#endif
