/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices in the order that they came, bounded by giving up a class after the other.
 */
#ifndef KERNEL_DELAY_KEPT_SLICES_H
#define KERNEL_DELAY_KEPT_SLICES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "event_records.h"

struct kept_slices {
	struct timeline_slice *slices; /* whose number is their CPU's */
	uint64_t count;
	uint64_t room;
	uint64_t max;
	uint32_t least_class; /* that is still kept */
	uint64_t lost[SLICE_CLASSES];
};

enum slice_class class_of(uint8_t kind);

/* Counts it as lost where there is no room, or no memory. */
void kept_slices_add(struct kept_slices *kept, const struct timeline_slice *slice);

/* Moves what began before @stop_ns to @to, which is empty; what ends behind it stays too. */
bool kept_slices_move(struct kept_slices *kept, struct kept_slices *to, uint64_t stop_ns);

#endif
