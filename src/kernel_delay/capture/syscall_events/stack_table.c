/* SPDX-License-Identifier: Apache-2.0 */
#include "stack_table.h"

#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#include "event_records.h"

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
	if (table->count == table->max || table->size + prefix_size + size > STACKS_SIZE_MAX)
		return NO_STACK;
	stack = malloc(sizeof(*stack) + prefix_size + size);
	if (!stack)
		return NO_STACK;
	table->size += prefix_size + size;
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
	taken->pages = stack->prefix ? prefix : NULL;
	taken->registers = stack->prefix ? prefix + STACK_PAGES_WORDS : NULL;
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

/* mmap(2) maps next to what is mapped, as the kernel chooses: below, or in a gap. */
#define NEXT_TO (1ULL << 30)

static bool may_be_code(uint64_t address, const struct mapped_range *mappings, uint32_t count)
{
	uint32_t low = 0, high = count;

	/* Most words are numbers, which this distinguishes from addresses. */
	if (!count || address < mappings[0].start)
		return false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (address >= mappings[middle].end)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == count)
		return false;
	if (address >= mappings[low].start)
		return mappings[low].is_code;
	return low && mappings[low].start - address < NEXT_TO;
}

uint32_t count_frames(const __u64 *addresses, uint32_t count, const struct mapped_range *mappings,
		      uint32_t mapping_count)
{
	uint32_t frames = 0;

	while (frames < count && may_be_code(ADDRESS(addresses[frames]), mappings, mapping_count))
		frames++;
	return frames;
}

/* A 32-bit process has nothing above, a 64-bit one its stack and its vDSO. */
static bool is_32bit(const struct mapped_range *mappings, uint32_t count)
{
	return count && mappings[count - 1].end <= 1ull << 32;
}

/* Adds a copied page of the stack, at address @at, in words of @size, to the kind. */
static uint64_t mix_page(uint64_t hash, const uint8_t *bytes, uint32_t size, uint64_t at,
			 const struct event_stacks *stacks, const struct mapped_range *mappings,
			 uint32_t count)
{
	uint64_t sp = stacks->registers[STACK_POINTER], end = stacks->stack_end;

	for (uint64_t place = at; place < at + STACK_PAGE; place += size) {
		uint64_t word = 0, address;

		memcpy(&word, bytes, size);
		bytes += size;
		address = ADDRESS(word);
		if (place < sp || place >= end || (address >= sp && address < end) ||
		    !may_be_code(address, mappings, count))
			continue;
		hash = mix(mix(hash, place - sp), address);
	}
	return hash;
}

uint64_t hash_user_stack(const struct event_stacks *stacks, const struct mapped_range *mappings,
			 uint32_t count)
{
	uint32_t size = is_32bit(mappings, count) ? sizeof(__u32) : sizeof(__u64);
	const uint8_t *bytes = (const uint8_t *)(stacks + 1);
	uint64_t first = stacks->registers[STACK_POINTER] & ~(STACK_PAGE - 1ull);
	uint64_t hash = mix(0, stacks->registers[INSTRUCTION_POINTER]);

	if (!stacks->pages[0]) /* addresses, if anything */
		return mix(hash,
			   hash_words((const __u64 *)bytes, stacks->user_bytes / sizeof(__u64)));
	for (uint32_t page = 0; page < STACK_PAGES_SEARCHED; page++) {
		if (!(stacks->pages[page / 64] >> page % 64 & 1))
			continue;
		hash = mix_page(hash, bytes, size, first + page * STACK_PAGE, stacks, mappings,
				count);
		bytes += STACK_PAGE;
	}
	return hash;
}
