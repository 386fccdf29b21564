/* SPDX-License-Identifier: Apache-2.0 */
#include "longest_events.h"

#include <stdlib.h>

#define FIRST_ROOM 4096

/* A rank's followers in the heap: four lie in one or two cache lines. */
#define FOLLOWERS 4

static uint64_t length_ns(const struct kept_event *event)
{
	return event->exit_ns - event->entry_ns;
}

static bool grow(struct longest_events *events, uint64_t room)
{
	struct kept_event *moved = realloc(events->events, room * sizeof(*moved));
	struct rank *ranks;

	if (!moved)
		return false;
	events->events = moved;
	ranks = realloc(events->ranks, room * sizeof(*ranks));
	if (!ranks)
		return false;
	events->ranks = ranks;
	events->room = room;
	return true;
}

bool longest_events_open(struct longest_events *events, uint64_t max)
{
	*events = (struct longest_events){.max = max};
	if (grow(events, max < FIRST_ROOM ? max : FIRST_ROOM))
		return true;
	longest_events_close(events);
	return false;
}

void longest_events_close(struct longest_events *events)
{
	free(events->events);
	free(events->ranks);
	*events = (struct longest_events){};
}

/* Puts @rank where those before @at are shorter. */
static void move_up(struct rank *ranks, uint64_t at, struct rank rank)
{
	while (at) {
		uint64_t before = (at - 1) / FOLLOWERS;

		if (ranks[before].length_ns <= rank.length_ns)
			break;
		ranks[at] = ranks[before];
		at = before;
	}
	ranks[at] = rank;
}

/* Puts @rank in place of the first, where those after it are longer. */
static void move_down(struct rank *ranks, uint64_t count, struct rank rank)
{
	uint64_t at = 0;

	for (;;) {
		uint64_t first = at * FOLLOWERS + 1, least = first;
		uint64_t end = first + FOLLOWERS < count ? first + FOLLOWERS : count;

		if (first >= count)
			break;
		for (uint64_t other = first + 1; other < end; other++)
			if (ranks[other].length_ns < ranks[least].length_ns)
				least = other;
		if (ranks[least].length_ns >= rank.length_ns)
			break;
		ranks[at] = ranks[least];
		at = least;
	}
	ranks[at] = rank;
}

/* Makes room for one more, unless there are enough, or there is no memory. */
static bool has_room(struct longest_events *events)
{
	uint64_t room = events->room * 2 < events->max ? events->room * 2 : events->max;

	return events->count < events->room || (room > events->room && grow(events, room));
}

bool longest_events_wants(const struct longest_events *events, const struct kept_event *event)
{
	return events->count < events->max ||
	       (events->count && length_ns(event) > events->ranks[0].length_ns);
}

void longest_events_add(struct longest_events *events, const struct kept_event *event)
{
	struct rank rank = {.length_ns = length_ns(event), .place = events->count};

	if (has_room(events)) {
		move_up(events->ranks, events->count++, rank);
		events->events[rank.place] = *event;
		return;
	}
	events->shorter++;
	if (!events->count || rank.length_ns <= events->ranks[0].length_ns)
		return;
	rank.place = events->ranks[0].place;
	move_down(events->ranks, events->count, rank);
	events->events[rank.place] = *event;
}

/* Moves those that are not over at @stop_ns behind the others; returns how many are. */
static uint64_t part(struct longest_events *events, uint64_t stop_ns)
{
	uint64_t over = 0;

	for (uint64_t i = 0; i < events->count; i++) {
		struct kept_event event = events->events[i];

		if (event.exit_ns >= stop_ns)
			continue;
		events->events[i] = events->events[over];
		events->events[over++] = event;
	}
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
	taken->events = events->events;
	taken->count = over;
	taken->shorter = events->shorter;
	free(events->ranks);
	*events = rest;
	return true;
}
