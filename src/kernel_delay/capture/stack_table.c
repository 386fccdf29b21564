/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_table.h"

#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#include "records.h"

#if defined(__x86_64__)
#define INSTRUCTION_POINTER 16
#elif defined(__aarch64__)
#define INSTRUCTION_POINTER 32
#endif

bool stack_table_open(struct stack_table *table, uint32_t max)
{
	uint32_t buckets = 16;

	while (buckets < 2 * (uint64_t)max && buckets < 1u << 31)
		buckets *= 2;
	table->max = max;
	table->bucket_mask = buckets - 1;
	table->stacks = calloc(max ? max : 1, sizeof(*table->stacks));
	table->buckets = calloc(buckets, sizeof(*table->buckets));
	return table->stacks && table->buckets;
}

void stack_table_close(struct stack_table *table)
{
	for (uint32_t i = 0; i < table->count; i++)
		free(table->stacks[i]);
	free(table->stacks);
	free(table->buckets);
}

uint32_t stack_table_add(struct stack_table *table, uint64_t kind, const void *prefix,
			 uint32_t prefix_size, const void *bytes, uint32_t size)
{
	uint32_t bucket = kind & table->bucket_mask;
	struct stack *stack;

	for (; table->buckets[bucket]; bucket = (bucket + 1) & table->bucket_mask) {
		uint32_t index = table->buckets[bucket] - 1;

		if (table->stacks[index]->kind == kind)
			return index;
	}
	stack = table->count < table->max ? malloc(sizeof(*stack) + prefix_size + size) : NULL;
	if (!stack) {
		table->refused++;
		return NO_STACK;
	}
	stack->kind = kind;
	stack->prefix = prefix_size;
	stack->size = prefix_size + size;
	if (prefix_size)
		memcpy(stack->bytes, prefix, prefix_size);
	memcpy(stack->bytes + prefix_size, bytes, size);
	table->stacks[table->count] = stack;
	table->buckets[bucket] = table->count + 1;
	return table->count++;
}

const struct stack *stack_table_at(const struct stack_table *table, uint32_t index)
{
	return table->stacks[index];
}

/* A step of FNV-1a on words, with the high bits brought down: the table uses the low ones. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x100000001b3;
	return hash ^ hash >> 32;
}

uint64_t hash_words(const __u64 *words, uint32_t count)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (uint32_t i = 0; i < count; i++)
		hash = mix(hash, words[i]);
	return hash;
}

static bool is_code(uint64_t word, const struct code_range *code, uint32_t ranges)
{
	uint32_t low = 0, high = ranges;

	if (!ranges || word < code[0].start || word >= code[ranges - 1].end)
		return false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (word >= code[middle].end)
			low = middle + 1;
		else
			high = middle;
	}
	return low < ranges && word >= code[low].start;
}

uint64_t hash_code(const struct event_stacks *stacks, const struct code_range *code,
		   uint32_t code_ranges)
{
	const uint64_t *words = (const uint64_t *)(stacks + 1);
	uint64_t hash = mix(stacks->user_bytes, stacks->registers[INSTRUCTION_POINTER]);

	for (uint32_t depth = 0; depth < stacks->user_bytes / sizeof(*words); depth++)
		if (is_code(words[depth], code, code_ranges))
			hash = mix(mix(hash, depth), words[depth]);
	return hash;
}
