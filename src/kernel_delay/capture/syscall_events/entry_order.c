// SPDX-License-Identifier: Apache-2.0
/*
 * A radix sort: a window's events differ in the low bits of their times only
 * (a second has 30), so that a million take a few passes over small keys where
 * qsort() takes twenty over whole events.
 */
#include "entry_order.h"

#include <stdlib.h>

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

struct place {
	uint64_t since_first_ns;
	uint64_t index;
};

static void sort_by_digit(const struct place *from, struct place *to, uint64_t count,
			  unsigned int shift)
{
	uint64_t begin[DIGITS + 1] = {};

	for (uint64_t i = 0; i < count; i++)
		begin[(from[i].since_first_ns >> shift) % DIGITS + 1]++;
	for (unsigned int digit = 0; digit < DIGITS; digit++)
		begin[digit + 1] += begin[digit];
	for (uint64_t i = 0; i < count; i++)
		to[begin[(from[i].since_first_ns >> shift) % DIGITS]++] = from[i];
}

/* Moves the event at places[i].index to i, for all i: along each cycle of moves. */
static void move_to_places(struct kept_event *events, struct place *places, uint64_t count)
{
	for (uint64_t start = 0; start < count; start++) {
		struct kept_event first = events[start];
		uint64_t to = start;

		while (places[to].index != start) {
			uint64_t from = places[to].index;

			events[to] = events[from];
			places[to].index = to;
			to = from;
		}
		events[to] = first;
		places[to].index = to;
	}
}

static void sort(struct kept_event *events, uint64_t count, struct place *places,
		 struct place *sorted)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;

	for (uint64_t i = 0; i < count; i++) {
		first_ns = events[i].entry_ns < first_ns ? events[i].entry_ns : first_ns;
		last_ns = events[i].entry_ns > last_ns ? events[i].entry_ns : last_ns;
	}
	for (uint64_t i = 0; i < count; i++)
		places[i] = (struct place){events[i].entry_ns - first_ns, i};
	for (unsigned int shift = 0; shift < 64 && (last_ns - first_ns) >> shift;
	     shift += DIGIT_BITS) {
		struct place *unsorted = places;

		sort_by_digit(unsorted, sorted, count, shift);
		places = sorted;
		sorted = unsorted;
	}
	move_to_places(events, places, count);
}

bool sort_by_entry(struct kept_event *events, uint64_t count)
{
	struct place *places;

	if (count < 2)
		return true;
	places = malloc(2 * count * sizeof(*places));
	if (!places)
		return false;
	sort(events, count, places, places + count);
	free(places);
	return true;
}
