/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "event_store.h"

#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "longest_events.h"
#include "records.h"
#include "stack_table.h"

/* The buffer is drained this often: at 100 MB/s, 4 MiB of it last 40 ms. */
#define DRAIN_EVERY_NS 500000
#define HIGHEST_PRIORITY (-20)

struct event_store {
	pthread_t drainer;
	pthread_mutex_t lock; /* of all below */
	bool stop;
	struct ring_buffer *ring;
	struct longest_events events;
	struct stack_table kernel_stacks;
	struct stack_table user_stacks;
	const struct code_range *code;
	uint32_t code_ranges;
};

static uint32_t keep_user_stack(struct event_store *store, const struct event_stacks *stacks)
{
	const void *bytes = stacks + 1;
	uint64_t kind = hash_code(stacks, store->code, store->code_ranges);

	if (!stacks->user_bytes)
		return NO_STACK;
	return stack_table_add(&store->user_stacks, kind, stacks->registers,
			       sizeof(stacks->registers), bytes, stacks->user_bytes);
}

static uint32_t keep_kernel_stack(struct event_store *store, const struct event_stacks *stacks)
{
	uint32_t size = stacks->kernel_frames * sizeof(stacks->kernel[0]);

	if (!size)
		return NO_STACK;
	return stack_table_add(&store->kernel_stacks, hash_words(stacks->kernel, size / 8), NULL, 0,
			       stacks->kernel, size);
}

static int keep(void *context, void *data, size_t size)
{
	const struct syscall_event *event = data;
	struct event_store *store = context;
	struct kept_event kept = {
		.thread = event->thread,
		.entry_ns = event->entry_ns,
		.exit_ns = event->exit_ns,
		.value = event->value,
		/* As the kernel takes it: the low 32 bits, signed. */
		.syscall = (int32_t)event->syscall,
		.tid = event->tid,
		.kernel_stack = NO_STACK,
		.user_stack = NO_STACK,
	};

	(void)size;
	if (event->has_stacks && longest_events_wants(&store->events, &kept)) {
		const struct event_stacks *stacks = (const void *)(event + 1);

		kept.kernel_stack = keep_kernel_stack(store, stacks);
		kept.user_stack = keep_user_stack(store, stacks);
	}
	longest_events_add(&store->events, &kept);
	return 0;
}

static void *drain(void *context)
{
	const struct timespec pause = {.tv_nsec = DRAIN_EVERY_NS};
	struct event_store *store = context;
	bool stop = false;

	while (!stop) {
		pthread_mutex_lock(&store->lock);
		ring_buffer__consume(store->ring);
		stop = store->stop;
		pthread_mutex_unlock(&store->lock);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

struct event_store *event_store_open(int ring_fd, uint64_t max_events, uint32_t max_stacks,
				     const struct code_range *code, uint32_t code_ranges)
{
	struct event_store *store = calloc(1, sizeof(*store));
	int error = ENOMEM;

	if (!store)
		goto failed;
	store->code = code;
	store->code_ranges = code_ranges;
	pthread_mutex_init(&store->lock, NULL);
	if (!longest_events_open(&store->events, max_events) ||
	    !stack_table_open(&store->kernel_stacks, max_stacks) ||
	    !stack_table_open(&store->user_stacks, max_stacks))
		goto failed;
	store->ring = ring_buffer__new(ring_fd, keep, store, NULL);
	if (!store->ring) {
		error = errno;
		goto failed;
	}
	error = pthread_create(&store->drainer, NULL, drain, store);
	if (!error)
		return store;
failed:
	if (store) {
		store->stop = true;
		store->drainer = 0;
		event_store_close(store);
	}
	errno = error;
	return NULL;
}

void event_store_close(struct event_store *store)
{
	if (store->drainer) {
		pthread_mutex_lock(&store->lock);
		store->stop = true;
		pthread_mutex_unlock(&store->lock);
		pthread_join(store->drainer, NULL);
	}
	ring_buffer__free(store->ring);
	longest_events_close(&store->events);
	stack_table_close(&store->kernel_stacks);
	stack_table_close(&store->user_stacks);
	free(store);
}

static void mark_used(const struct kept_event *events, int64_t count, uint8_t *kernel_used,
		      uint8_t *user_used)
{
	for (int64_t i = 0; i < count; i++) {
		if (events[i].kernel_stack != NO_STACK)
			kernel_used[events[i].kernel_stack] = 1;
		if (events[i].user_stack != NO_STACK)
			user_used[events[i].user_stack] = 1;
	}
}

int64_t event_store_take(struct event_store *store, uint64_t stop_ns, struct kept_event **events,
			 uint8_t *kernel_used, uint8_t *user_used, uint64_t *shorter,
			 uint64_t *unkept_stacks)
{
	int64_t count;

	pthread_mutex_lock(&store->lock);
	ring_buffer__consume(store->ring);
	count = longest_events_take(&store->events, stop_ns, events, shorter);
	*unkept_stacks = store->user_stacks.refused + store->kernel_stacks.refused;
	store->user_stacks.refused = store->kernel_stacks.refused = 0;
	pthread_mutex_unlock(&store->lock);
	mark_used(*events, count, kernel_used, user_used);
	return count;
}

uint32_t event_store_kernel_stack(struct event_store *store, uint32_t index,
				  const uint64_t **addresses)
{
	const struct stack *stack = stack_table_at(&store->kernel_stacks, index);

	*addresses = (const uint64_t *)stack->bytes;
	return stack->size / sizeof(uint64_t);
}

uint32_t event_store_user_stack(struct event_store *store, uint32_t index,
				const uint64_t **registers, const uint8_t **bytes)
{
	const struct stack *stack = stack_table_at(&store->user_stacks, index);

	*registers = (const uint64_t *)stack->bytes;
	*bytes = stack->bytes + stack->prefix;
	return stack->size - stack->prefix;
}
