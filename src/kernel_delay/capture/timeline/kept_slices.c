// SPDX-License-Identifier: Apache-2.0
#include "kept_slices.h"

#include <stdlib.h>

#define FIRST_ROOM 4096

enum slice_class class_of(uint8_t kind)
{
	if (kind == SLICE_HARD_IRQ || kind == SLICE_SOFT_IRQ || kind == STATE_GUEST)
		return SLICE_OF_INTERRUPT;
	return kind < STATE_SLOTS ? SLICE_OF_STATE : SLICE_OF_MODE;
}

static bool grow(struct kept_slices *kept)
{
	uint64_t room = kept->room ? 2 * kept->room : FIRST_ROOM;
	struct timeline_slice *slices;

	if (room > kept->max)
		room = kept->max;
	if (room <= kept->count)
		return false;
	slices = realloc(kept->slices, room * sizeof(*slices));
	if (!slices)
		return false;
	kept->slices = slices;
	kept->room = room;
	return true;
}

/* Gives up the next class; false if there is none but the last. */
static bool give_up(struct kept_slices *kept)
{
	uint64_t left = 0;

	if (kept->least_class == SLICE_OF_MODE)
		return false;
	for (uint64_t i = 0; i < kept->count; i++) {
		if (class_of(kept->slices[i].kind) == kept->least_class)
			kept->lost[kept->least_class]++;
		else
			kept->slices[left++] = kept->slices[i];
	}
	kept->count = left;
	kept->least_class++;
	return true;
}

void kept_slices_add(struct kept_slices *kept, const struct timeline_slice *slice)
{
	enum slice_class class = class_of(slice->kind);

	while (kept->count == kept->room && !grow(kept)) {
		if (!give_up(kept))
			break;
	}
	if (class < kept->least_class || kept->count == kept->room)
		kept->lost[class]++;
	else
		kept->slices[kept->count++] = *slice;
}

bool kept_slices_move(struct kept_slices *kept, struct kept_slices *to, uint64_t stop_ns)
{
	uint64_t left = 0;

	to->slices = malloc((kept->count + !kept->count) * sizeof(*to->slices));
	if (!to->slices)
		return false;
	for (uint64_t i = 0; i < kept->count; i++) {
		const struct timeline_slice *slice = &kept->slices[i];

		if (slice->since_ns < stop_ns)
			to->slices[to->count++] = *slice;
		if (slice->until_ns > stop_ns)
			kept->slices[left++] = *slice;
	}
	kept->count = left;
	for (int class = 0; class < SLICE_CLASSES; class ++) {
		to->lost[class] = kept->lost[class];
		kept->lost[class] = 0;
	}
	kept->least_class = SLICE_OF_INTERRUPT;
	return true;
}
