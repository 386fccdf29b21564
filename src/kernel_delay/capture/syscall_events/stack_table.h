/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks, one of each kind. Two copies of a stack are of one kind when they
 * were made at the same place and have the same code addresses at the same
 * depths: then they unwind alike, whatever else is on them.
 */
#ifndef KERNEL_DELAY_STACK_TABLE_H
#define KERNEL_DELAY_STACK_TABLE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "event_store.h"

struct event_stacks;

struct stack {
	uint64_t kind;
	uint64_t uses;
	uint32_t prefix; /* bytes of pages and registers before the stack's */
	uint32_t size; /* of all bytes */
	uint8_t bytes[];
};

#define STACKS_SIZE_MAX (128 << 20)

struct stack_table {
	struct stack **stacks;
	uint32_t count;
	uint32_t max;
	uint64_t size; /* of all their bytes, at most STACKS_SIZE_MAX */
	uint32_t *buckets; /* index plus one; open addressing */
	uint32_t bucket_mask;
};

/* False if there is no memory; stack_table_close() is needed then, too. */
bool stack_table_open(struct stack_table *table, uint32_t max);
void stack_table_close(struct stack_table *table);

/* Returns the index of the stack of that kind, a new one if needed; NO_STACK if it is full. */
uint32_t stack_table_add(struct stack_table *table, uint64_t kind, const void *prefix,
			 uint32_t prefix_size, const void *bytes, uint32_t size);

/* Adds a stack of another table, which may be NO_STACK; returns its index here. */
uint32_t stack_table_copy(struct stack_table *table, const struct stack_table *from,
			  uint32_t index);

/* Counts a use of a stack, which may be NO_STACK. */
void stack_table_use(struct stack_table *table, uint32_t index);
void stack_table_get(const struct stack_table *table, uint32_t index, struct taken_stack *stack);

uint64_t hash_words(const __u64 *words, uint32_t count);

/*
 * The kind of a user stack: where it was, and each word on it that may be a
 * code address, with its depth. That is what points to code, or to where code
 * may have been mapped just now: stacks that differ in that must not be taken
 * for one.
 */
uint64_t hash_user_stack(const struct event_stacks *stacks, const struct mapped_range *mappings,
			 uint32_t count);

/*
 * How many of the addresses that the kernel's walk along frame pointers found may be code, from the
 * first on. Where there are no frame pointers it finds any numbers, others for each event.
 */
uint32_t count_frames(const __u64 *addresses, uint32_t count, const struct mapped_range *mappings,
		      uint32_t mapping_count);

#endif
