/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events from the programs' buffer, kept until their window is reported.
 *
 * A thread of its own drains the buffer, since a busy process makes millions
 * of events a second and the interpreter can't keep up. What it keeps is
 * bounded: of events the longest, of stacks the first of each kind.
 */
#ifndef KERNEL_DELAY_EVENT_STORE_H
#define KERNEL_DELAY_EVENT_STORE_H

#include <stdint.h>

#define NO_STACK ((uint32_t)-1)

/* An event without its stacks, which are in the store's tables. */
struct kept_event {
	uint64_t thread; /* thread_record.number, 0: not known */
	uint64_t entry_ns;
	uint64_t exit_ns;
	int64_t value;
	int32_t syscall;
	uint32_t tid;
	uint32_t kernel_stack; /* index, or NO_STACK */
	uint32_t user_stack;
};

/* Memory that the process may run code from: [start, end). */
struct code_range {
	uint64_t start;
	uint64_t end;
};

struct event_store;

/*
 * Starts draining the ring buffer map @ring_fd. Keeps at most @max_events and
 * @max_stacks of each kind. @code, sorted, says which words of a copied stack
 * may be return addresses. NULL and errno on failure.
 */
struct event_store *event_store_open(int ring_fd, uint64_t max_events, uint32_t max_stacks,
				     const struct code_range *code, uint32_t code_ranges);
void event_store_close(struct event_store *store);

/*
 * Moves the events that ended before @stop_ns to *@events, sorted by the time
 * they began; the caller frees them. All of them must be in the buffer. Sets
 * @kernel_used and @user_used, of max_stacks bytes each, to 1 at the indexes of
 * the stacks that they have. Sets *@shorter to how many were left out as shorter than all that are
 * kept, and
 * *@unkept_stacks to how many events lost a stack as there were too many
 * kinds, both since the last call. Returns how many events, or -1 and errno.
 */
int64_t event_store_take(struct event_store *store, uint64_t stop_ns, struct kept_event **events,
			 uint8_t *kernel_used, uint8_t *user_used, uint64_t *shorter,
			 uint64_t *unkept_stacks);

/* What is kept of stacks: valid until the store is closed, never moved. */
uint32_t event_store_kernel_stack(struct event_store *store, uint32_t index,
				  const uint64_t **addresses);
uint32_t event_store_user_stack(struct event_store *store, uint32_t index,
				const uint64_t **registers, const uint8_t **bytes);

#endif
