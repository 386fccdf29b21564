/* SPDX-License-Identifier: Apache-2.0 */
#include "longest_events.h"

#include <stdlib.h>

#define FIRST_ROOM 4096

static uint64_t length_ns(const struct kept_event *event)
{
	return event->exit_ns - event->entry_ns;
}

static void swap(struct kept_event *one, struct kept_event *other)
{
	struct kept_event kept = *one;

	*one = *other;
	*other = kept;
}

bool longest_events_open(struct longest_events *events, uint64_t max)
{
	*events = (struct longest_events){.max = max, .room = FIRST_ROOM};
	events->events = malloc(events->room * sizeof(*events->events));
	return events->events;
}

void longest_events_close(struct longest_events *events)
{
	free(events->events);
}

/*
 * Brings the @kept longest to the front: quickselect, with the middle of three
 * as pivot, so that events in order are no worst case.
 */
static void select_longest(struct kept_event *events, uint64_t count, uint64_t kept)
{
	uint64_t low = 0, high = count;

	while (high - low > 1) {
		uint64_t first = length_ns(&events[low]);
		uint64_t middle = length_ns(&events[low + (high - low) / 2]);
		uint64_t last = length_ns(&events[high - 1]);
		uint64_t least = first < middle ? first : middle;
		uint64_t most = first < middle ? middle : first;
		uint64_t pivot = last < least ? least : last > most ? most : last;
		uint64_t longer = low, at = low, shorter = high;

		while (at < shorter) {
			uint64_t length = length_ns(&events[at]);

			if (length > pivot)
				swap(&events[at++], &events[longer++]);
			else if (length < pivot)
				swap(&events[at], &events[--shorter]);
			else
				at++;
		}
		if (kept < longer)
			high = longer;
		else if (kept > shorter)
			low = shorter;
		else
			return;
	}
}

static void throw_out(struct longest_events *events, uint64_t kept)
{
	uint64_t least = UINT64_MAX;

	if (events->count <= kept)
		return;
	select_longest(events->events, events->count, kept);
	for (uint64_t i = 0; i < kept; i++)
		if (length_ns(&events->events[i]) < least)
			least = length_ns(&events->events[i]);
	events->shorter += events->count - kept;
	events->count = kept;
	events->least_ns = least;
}

/* Makes room for one more, in memory as long as there is. */
static void make_room(struct longest_events *events)
{
	uint64_t most = events->max + events->max / 4 + FIRST_ROOM;
	uint64_t room = events->room * 2 < most ? events->room * 2 : most;
	struct kept_event *moved = NULL;

	if (room > events->room)
		moved = realloc(events->events, room * sizeof(*moved));
	if (moved) {
		events->events = moved;
		events->room = room;
	} else {
		throw_out(events, events->room < most ? events->room / 2 : events->max);
	}
}

bool longest_events_wants(const struct longest_events *events, const struct kept_event *event)
{
	return length_ns(event) >= events->least_ns;
}

void longest_events_add(struct longest_events *events, const struct kept_event *event)
{
	if (!longest_events_wants(events, event)) {
		events->shorter++;
		return;
	}
	if (events->count == events->room)
		make_room(events);
	events->events[events->count++] = *event;
}

/* Moves those that are not over at @stop_ns behind the others; returns how many are. */
static uint64_t part(struct longest_events *events, uint64_t stop_ns)
{
	uint64_t over = 0;

	for (uint64_t i = 0; i < events->count; i++)
		if (events->events[i].exit_ns < stop_ns)
			swap(&events->events[i], &events->events[over++]);
	return over;
}

bool longest_events_take(struct longest_events *events, uint64_t stop_ns,
			 struct taken_events *taken)
{
	struct longest_events rest;
	uint64_t over;

	if (!longest_events_open(&rest, events->max))
		return false;
	over = part(events, stop_ns);
	for (uint64_t i = over; i < events->count; i++)
		longest_events_add(&rest, &events->events[i]);
	events->count = over;
	throw_out(events, events->max);
	taken->events = events->events;
	taken->count = events->count;
	taken->shorter = events->shorter;
	*events = rest;
	return true;
}
