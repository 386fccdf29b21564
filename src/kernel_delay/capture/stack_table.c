/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_table.h"

#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#include "records.h"

#if defined(__x86_64__)
#define INSTRUCTION_POINTER 16
#define STACK_POINTER 19
#elif defined(__aarch64__)
#define INSTRUCTION_POINTER 32
#define STACK_POINTER 31
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
	if (!stack)
		return NO_STACK;
	stack->kind = kind;
	stack->uses = 0;
	stack->prefix = prefix_size;
	stack->size = prefix_size + size;
	if (prefix_size)
		memcpy(stack->bytes, prefix, prefix_size);
	if (size)
		memcpy(stack->bytes + prefix_size, bytes, size);
	table->stacks[table->count] = stack;
	table->buckets[bucket] = table->count + 1;
	return table->count++;
}

uint32_t stack_table_copy(struct stack_table *table, const struct stack_table *from, uint32_t index)
{
	const struct stack *stack;

	if (index == NO_STACK)
		return NO_STACK;
	stack = from->stacks[index];
	return stack_table_add(table, stack->kind, stack->bytes, stack->prefix,
			       stack->bytes + stack->prefix, stack->size - stack->prefix);
}

void stack_table_use(struct stack_table *table, uint32_t index)
{
	if (index != NO_STACK)
		table->stacks[index]->uses++;
}

void stack_table_get(const struct stack_table *table, uint32_t index, struct taken_stack *taken)
{
	const struct stack *stack = table->stacks[index];
	const uint64_t *prefix = (const uint64_t *)stack->bytes;

	taken->uses = stack->uses;
	taken->missing_pages = stack->prefix ? prefix[0] : 0;
	taken->registers = stack->prefix ? prefix + 1 : NULL;
	taken->bytes = stack->bytes + stack->prefix;
	taken->size = stack->size - stack->prefix;
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

/* Bits of a user address; above, arm64 has pointer authentication codes. */
#if defined(__x86_64__)
#define ADDRESS(word) (word)
#elif defined(__aarch64__)
#define ADDRESS(word) ((word) & ((1ULL << 48) - 1))
#endif

/* The lowest address that may be mapped by default, vm.mmap_min_addr, and the end of all. */
#define LOWEST_ADDRESS 65536
#define ADDRESSES_END (1ULL << 48)

/* The range that @address is in, or NULL. */
static const struct memory_range *find_range(uint64_t address, const struct memory_range *ranges,
					     uint32_t count)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (address >= ranges[middle].end)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && address >= ranges[low].start ? &ranges[low] : NULL;
}

uint32_t stack_extent(const struct event_stacks *stacks, const struct memory_range *data,
		      uint32_t ranges)
{
	uint64_t sp = stacks->registers[STACK_POINTER];
	const struct memory_range *mapping = find_range(sp, data, ranges);

	if (mapping && mapping->end - sp < stacks->user_bytes)
		return mapping->end - sp;
	return stacks->user_bytes;
}

uint64_t hash_user_stack(const struct event_stacks *stacks, uint32_t bytes,
			 const struct memory_range *data, uint32_t ranges)
{
	const uint64_t *words = (const uint64_t *)(stacks + 1);
	uint64_t hash = mix(bytes, stacks->registers[INSTRUCTION_POINTER]);
	uint64_t sp = stacks->registers[STACK_POINTER];

	for (uint32_t depth = 0; depth < bytes / sizeof(*words); depth++) {
		uint64_t address = ADDRESS(words[depth]);

		if (address < LOWEST_ADDRESS || address >= ADDRESSES_END || address - sp < bytes ||
		    find_range(address, data, ranges))
			continue;
		hash = mix(mix(hash, depth), address);
	}
	return hash;
}
