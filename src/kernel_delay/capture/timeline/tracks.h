/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the slices that were reported to what a thread did all the time: what it did at the window's
 * end is added, and where slices are missing, that is said.
 */
#ifndef KERNEL_DELAY_TRACKS_H
#define KERNEL_DELAY_TRACKS_H

#include <stdbool.h>

#include "kept_slices.h"
#include "timeline_store.h"

/*
 * Adds to taken->lost the slices of threads that are not asked for, and makes taken->slices;
 * taken->lost has what else was lost by then. Sorts @kept. False without memory.
 */
bool show_slices(struct kept_slices *kept, uint64_t start_ns, uint64_t stop_ns,
		 const struct last_slices *threads, uint32_t count, struct taken_timeline *taken);

#endif
