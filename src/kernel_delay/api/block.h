/* SPDX-License-Identifier: Apache-2.0 */

/* So many blocks can be measured at once. */
#define BLOCKS 16

/*
 * The block of that number, below BLOCKS, begins, or ends. Each number has functions of its own,
 * kernel_delay_block_begins_N and _ends_N: uprobes on them open and close the window of that block
 * alone.
 */
void block_begins(int number);
void block_ends(int number);
