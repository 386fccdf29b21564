// SPDX-License-Identifier: Apache-2.0
/* Copies of user stacks of any content and place: hashed, and kept by kind. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "event_records.h"
#include "stack_table.h"

static const struct mapped_range mappings[] = {
	{0x555500000000, 0x555500100000, 1},
	{0x7f0000000000, 0x7f0000100000, 1},
	{0x7f0000100000, 0x7f0000200000, 0},
};

static size_t bits(const struct event_stacks *stacks)
{
	size_t n = 0;

	for (int word = 0; word < STACK_PAGES_WORDS; word++)
		n += __builtin_popcountll(stacks->pages[word]);
	return n;
}

/* Leaves as many pages as there is content for; none that is copied without the first 64. */
static size_t fit(struct event_stacks *stacks, size_t size)
{
	int word = STACK_PAGES_WORDS - 1;

	while (bits(stacks) > size / STACK_PAGE || (!stacks->pages[0] && bits(stacks)))
		if (stacks->pages[word])
			stacks->pages[word] &= stacks->pages[word] - 1;
		else
			word--;
	return bits(stacks) ? bits(stacks) * STACK_PAGE : size & ~7;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct event_stacks *stacks = calloc(1, sizeof(*stacks) + size);
	struct stack_table table = {}, copy = {};
	struct taken_stack taken = {};
	uint32_t index, again;
	uint64_t kind;

	if (!stacks || !stack_table_open(&table, 3) || !stack_table_open(&copy, 3))
		abort();
	if (size >= sizeof(*stacks)) {
		memcpy(stacks, data, size);
		/* What the programs see to. */
		stacks->user_bytes = fit(stacks, size - sizeof(*stacks));
	}
	kind = hash_user_stack(stacks, mappings, sizeof(mappings) / sizeof(*mappings));
	index = stack_table_add(&table, kind, stacks->pages,
				sizeof(stacks->pages) + sizeof(stacks->registers), stacks + 1,
				stacks->user_bytes);
	again = stack_table_add(&table, kind, stacks, 0, stacks, 0);
	if (index != again || kind != hash_user_stack(stacks, mappings, 3))
		abort();
	stack_table_use(&table, index);
	stack_table_get(&table, stack_table_copy(&copy, &table, index), &taken);
	if (taken.uses != 1 || taken.size != stacks->user_bytes ||
	    memcmp(taken.bytes, stacks + 1, taken.size))
		abort();
	stack_table_close(&table);
	stack_table_close(&copy);
	free(stacks);
	return 0;
}
