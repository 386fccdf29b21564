/* SPDX-License-Identifier: Apache-2.0 */

#include "block.h"

/* In the table of dynamic symbols, which no strip(1) removes, and never inlined: it is probed. */
#define PROBED __attribute__((noinline, visibility("default")))

/* The operand is what keeps the compiler from making one function of those that do the same. */
#define BLOCK(number)                                                                              \
	PROBED void kernel_delay_block_begins_##number(void)                                       \
	{                                                                                          \
		__asm__ volatile("" ::"i"(2 * number) : "memory");                                 \
	}                                                                                          \
	PROBED void kernel_delay_block_ends_##number(void)                                         \
	{                                                                                          \
		__asm__ volatile("" ::"i"(2 * number + 1) : "memory");                             \
	}

#define EACH(of)                                                                                   \
	of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8) of(9) of(10) of(11) of(12) of(13)    \
		of(14) of(15)

EACH(BLOCK)

#define BEGINS(number) kernel_delay_block_begins_##number,
#define ENDS(number) kernel_delay_block_ends_##number,

static void (*const begins[BLOCKS])(void) = {EACH(BEGINS)};
static void (*const ends[BLOCKS])(void) = {EACH(ENDS)};

void block_begins(int number)
{
	begins[number]();
}

void block_ends(int number)
{
	ends[number]();
}
