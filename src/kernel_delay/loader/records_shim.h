/* SPDX-License-Identifier: Apache-2.0 */
/* What user space does to the memory that it shares with the programs. */
#ifndef KERNEL_DELAY_RECORDS_SHIM_H
#define KERNEL_DELAY_RECORDS_SHIM_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

#include "event_records.h"
#include "records.h"

uint64_t load_counter(const __u64 *counter);
void store_counter(__u64 *counter, uint64_t value);
void mark_process(uint64_t *words, uint32_t tgid, int is_marked);
void free_windows(struct control *control, uint64_t epoch);
void publish_window(struct control *control, uint64_t start_ns, uint64_t stop_ns);
int end_window(struct control *control, uint64_t epoch, uint64_t stop_ns);
uint32_t find_parts(const void *records, size_t bytes, uint32_t slots, uint64_t owner,
		    uint32_t *found);
void free_slot(struct ring_position *position, uint64_t *freed, uint32_t freed_slots,
	       uint32_t slot);
void free_parts(void *records, size_t bytes, uint32_t slots, const uint8_t *is_owner,
		struct ring_position *position, uint64_t *freed, uint32_t freed_slots);
uint64_t monotonic_ns(void);
int wait_for_programs(void);

#endif
