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

/* With a thread's id, which is below 2^22 (PID_MAX_LIMIT, include/linux/threads.h). */
#define COMPAT_CALL 0x80000000

/* An event without its stacks, which are in tables. */
struct kept_event {
	uint64_t entry_ns;
	uint64_t exit_ns;
	uint64_t off_cpu_ns; /* or OFF_CPU_UNKNOWN */
	int64_t value;
	int32_t syscall; /* its number, as the kernel takes it */
	uint32_t tid; /* and COMPAT_CALL, if it is the 32-bit ABI's */
	uint32_t kernel_stack; /* index, or NO_STACK */
	uint32_t user_stack;
};

struct taken_events {
	struct kept_event *events; /* sorted by the time they began; the caller frees them */
	uint64_t count;
	uint64_t shorter; /* events left out, as all that were kept are longer */
	uint64_t unkept_stacks; /* events that lost a stack, as there were too many kinds */
	uint32_t kernel_stacks; /* in the tables of the events taken */
	uint32_t user_stacks;
};

struct taken_stack {
	uint64_t uses; /* events that have it, which may be none */
	const uint64_t *pages; /* these and the next of a user stack, as in struct event_stacks */
	const uint64_t *registers;
	const uint8_t *bytes;
	uint32_t size;
};

/* A mapping of the process: addresses [start, end). */
struct mapped_range {
	uint64_t start;
	uint64_t end;
	uint64_t is_code;
};

struct event_store;

/*
 * Starts draining the ring buffer map @ring_fd, of @ring_bytes. Keeps at most
 * @max_events and @max_stacks of each kind. NULL and errno on failure.
 */
struct event_store *event_store_open(int ring_fd, uint32_t ring_bytes, uint64_t max_events,
				     uint32_t max_stacks);
void event_store_close(struct event_store *store);

/*
 * Takes what the process has mapped, sorted, which is copied: it says which
 * words on a stack may be return addresses. 0, or -1 and errno.
 */
int event_store_set_mappings(struct event_store *store, const struct mapped_range *mappings,
			     uint32_t count);

/*
 * Takes the events that ended before @stop_ns, of which all must be in the
 * buffer; `shorter` and `unkept_stacks` are since the last call. 0, or -1 and
 * errno.
 */
int event_store_take(struct event_store *store, uint64_t stop_ns, struct taken_events *taken);

/* Stacks of the events that were taken last: valid until the next are. */
void event_store_kernel_stack(const struct event_store *store, uint32_t index,
			      struct taken_stack *stack);
void event_store_user_stack(const struct event_store *store, uint32_t index,
			    struct taken_stack *stack);

#endif
