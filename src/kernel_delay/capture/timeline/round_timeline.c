// SPDX-License-Identifier: Apache-2.0
#include "round_timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kept_slices.h"
#include "tracks.h"

/* add_running() and add_lost_modes() */
#define ADDED 2

/* What is kept, in the order that it was reported; those from @tail on are the last of the round.
 */
struct copied {
	struct kept_slices slices;
	uint64_t tail;
	uint64_t dropped; /* between the first and the last */
};

/*
 * The state that went on when there was no more room for the first slices is reported in none of
 * them. Until the last of them was reported, of a mode or an interrupt, the thread ran.
 */
static void add_running(struct copied *to)
{
	struct timeline_slice running = {.kind = STATE_RUNNING};

	for (uint64_t i = 0; i < to->slices.count; i++) {
		const struct timeline_slice *reported = &to->slices.slices[i];

		running.thread = reported->thread;
		if (class_of(reported->kind) == SLICE_OF_STATE) {
			running.since_ns = reported->until_ns;
		} else if (reported->until_ns > running.until_ns) {
			running.until_ns = reported->until_ns;
			running.number = reported->number;
			running.mode = MODE_USER;
		}
	}
	if (running.until_ns > running.since_ns)
		to->slices.slices[to->slices.count++] = running;
}

static bool copy(const struct kept_round *kept, struct copied *to)
{
	const struct timeline_slice *slices = (const void *)kept->slices;
	uint64_t half = kept->room / 2, last;

	to->tail = kept->reported < half ? kept->reported : half;
	last = kept->reported - to->tail;
	if (last > half) {
		to->dropped = last - half;
		last = half;
	}
	to->slices.slices = malloc((to->tail + last + ADDED) * sizeof(*slices));
	if (!to->slices.slices)
		return false;
	memcpy(to->slices.slices, slices, to->tail * sizeof(*slices));
	to->slices.count = to->tail;
	if (to->dropped)
		add_running(to);
	to->tail = to->slices.count;
	for (uint64_t i = 0; i < last; i++)
		to->slices.slices[to->slices.count++] = slices[half + (to->dropped + i) % half];
	return true;
}

/* The first mode in [@from, @to), or NULL. */
static struct timeline_slice *first_mode(const struct copied *copied, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		if (class_of(copied->slices.slices[i].kind) == SLICE_OF_MODE)
			return &copied->slices.slices[i];
	}
	return NULL;
}

/*
 * Modes follow each other by their order, of 16 bits: where 65,536 were dropped it could say
 * that none was. Then those before have another.
 */
static void part_orders(struct copied *copied)
{
	const struct timeline_slice *next = first_mode(copied, copied->tail, copied->slices.count);
	struct timeline_slice *slices = copied->slices.slices;
	bool follows = false;

	if (!next || copied->dropped <= UINT16_MAX)
		return;
	for (uint64_t i = 0; i < copied->tail; i++) {
		if (class_of(slices[i].kind) == SLICE_OF_MODE)
			follows = next->order == (uint16_t)(slices[i].order + 1);
	}
	for (uint64_t i = 0; i < copied->tail; i++)
		slices[i].order -= follows;
}

/*
 * Without a mode among the last slices those that were dropped are shown as such: they were over
 * when the first of the last slices was reported.
 */
static void add_lost_modes(struct copied *copied)
{
	struct timeline_slice *slices = copied->slices.slices;
	struct timeline_slice lost = {.kind = SLICE_LOST_MODES};

	if (!copied->dropped || first_mode(copied, copied->tail, copied->slices.count))
		return;
	lost.thread = slices[copied->tail].thread;
	lost.until_ns = slices[copied->tail].until_ns;
	for (uint64_t i = 0; i < copied->tail; i++) {
		if (class_of(slices[i].kind) == SLICE_OF_MODE) {
			lost.since_ns = slices[i].until_ns;
			lost.order = slices[i].order + 1;
		}
	}
	slices[copied->slices.count++] = lost;
}

/* May modes before the first that is kept have been dropped? */
static bool lacks_first_mode(const struct kept_round *kept, const struct copied *copied)
{
	const struct timeline_slice *first = first_mode(copied, 0, copied->slices.count);

	return copied->dropped && first && first->order != (uint16_t)(kept->modes_before + 1);
}

int round_timeline_show(const struct kept_round *kept, uint64_t start_ns, uint64_t stop_ns,
			const struct last_slices *last, struct taken_timeline *taken)
{
	struct copied copied = {};
	bool done = false;

	*taken = (struct taken_timeline){};
	if (copy(kept, &copied)) {
		taken->lost[SLICE_OF_MODE] = lacks_first_mode(kept, &copied);
		add_lost_modes(&copied);
		part_orders(&copied);
		done = show_slices(&copied.slices, start_ns, stop_ns, last, 1, taken);
		memset(taken->lost, 0, sizeof(taken->lost));
	}
	free(copied.slices.slices);
	if (done)
		return 0;
	free(taken->slices);
	errno = ENOMEM;
	return -1;
}
