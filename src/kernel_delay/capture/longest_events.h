/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest of any number of events. There is room for some more than are
 * kept; when that is used up, the shortest are thrown out by selection, which
 * costs a constant time an event.
 */
#ifndef KERNEL_DELAY_LONGEST_EVENTS_H
#define KERNEL_DELAY_LONGEST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "event_store.h"

struct longest_events {
	struct kept_event *events;
	uint64_t count;
	uint64_t room; /* allocated */
	uint64_t max; /* to keep */
	uint64_t shorter; /* thrown out since the last take */
	uint64_t least_ns; /* one shorter than that would be thrown out */
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
