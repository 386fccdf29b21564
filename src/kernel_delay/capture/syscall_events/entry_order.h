/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_DELAY_ENTRY_ORDER_H
#define KERNEL_DELAY_ENTRY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "event_store.h"

/* Sorts by entry_ns; those with the same stay in order. False if there is no memory for it. */
bool sort_by_entry(struct kept_event *events, uint64_t count);

#endif
