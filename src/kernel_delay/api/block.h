/* SPDX-License-Identifier: Apache-2.0 */

/* A block that is measured begins, or ends: uprobes on these open and close its window. */
void kernel_delay_block_begins(void);
void kernel_delay_block_ends(void);
