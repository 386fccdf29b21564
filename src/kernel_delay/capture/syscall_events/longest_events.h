/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest of any number of events. When as many as are to be kept are
 * there, a longer one takes the place of the shortest, which a heap finds: no
 * event takes much longer than another, so that none waits while the buffer
 * that it comes from fills up.
 */
#ifndef KERNEL_DELAY_LONGEST_EVENTS_H
#define KERNEL_DELAY_LONGEST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "event_store.h"

struct rank {
	uint64_t length_ns;
	uint64_t place; /* among the events */
};

struct longest_events {
	struct kept_event *events;
	struct rank *ranks; /* of each: a heap, the shortest first */
	uint64_t count;
	uint64_t room; /* allocated */
	uint64_t max; /* to keep */
	uint64_t shorter; /* left out since the last take */
};

bool longest_events_open(struct longest_events *events, uint64_t max);
void longest_events_close(struct longest_events *events);

/* Adds @event, unless it is too short to be kept. */
void longest_events_add(struct longest_events *events, const struct kept_event *event);

/* Whether longest_events_add() would. */
bool longest_events_wants(const struct longest_events *events, const struct kept_event *event);

/*
 * Moves the events that ended before @stop_ns, the longest of them, in no
 * order, and how many were shorter. False if there is no memory.
 */
bool longest_events_take(struct longest_events *events, uint64_t stop_ns,
			 struct taken_events *taken);

#endif
