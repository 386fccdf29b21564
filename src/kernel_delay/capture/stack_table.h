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
	uint32_t prefix; /* bytes of registers before the stack's */
	uint32_t size; /* of all bytes */
	uint8_t bytes[];
};

struct stack_table {
	struct stack **stacks;
	uint32_t count;
	uint32_t max;
	uint32_t *buckets; /* index plus one; open addressing */
	uint32_t bucket_mask;
	uint64_t refused; /* as the table was full; the caller takes and resets it */
};

bool stack_table_open(struct stack_table *table, uint32_t max);
void stack_table_close(struct stack_table *table);

/* Returns the index of the stack of that kind, a new one if needed; NO_STACK if it is full. */
uint32_t stack_table_add(struct stack_table *table, uint64_t kind, const void *prefix,
			 uint32_t prefix_size, const void *bytes, uint32_t size);
const struct stack *stack_table_at(const struct stack_table *table, uint32_t index);

uint64_t hash_words(const __u64 *words, uint32_t count);

/* The kind of a user stack: where it was, and each code address on it with its depth. */
uint64_t hash_code(const struct event_stacks *stacks, const struct code_range *code,
		   uint32_t code_ranges);

#endif
