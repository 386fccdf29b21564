/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "event_store.h"

#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "capabilities.h"
#include "entry_order.h"
#include "event_records.h"
#include "longest_events.h"
#include "stack_table.h"
#include "thread_records.h"

/*
 * The buffer is looked at this often: at 100 MB/s, 4 MiB of it last 40 ms. It
 * is seldom looked at while nothing comes, as for hours before a trigger.
 */
#define SHORTEST_PAUSE_NS 500000
#define LONGEST_PAUSE_NS 4000000

/* Records drained before others may have the lock. */
#define DRAINED_AT_ONCE 10000

#define HIGHEST_PRIORITY (-20)

struct stack_tables {
	struct stack_table kernel;
	struct stack_table user;
};

struct event_store {
	pthread_t drainer;
	bool drains;
	atomic_bool wanted; /* by one that waits for the lock: the drainer must not take it */
	pthread_mutex_t lock; /* of all below */
	bool stop;
	struct ring_buffer *ring;
	uint64_t ring_records; /* there can't be more in the buffer */
	uint64_t drain_limit;
	struct longest_events events;
	struct stack_tables stacks;
	uint64_t unkept_stacks;
	struct mapped_range *mappings;
	uint32_t mapping_count;

	struct stack_tables taken; /* not the drainer's */
};

static bool open_tables(struct stack_tables *tables, uint32_t max)
{
	/* Both, so that both can be closed. */
	bool kernel = stack_table_open(&tables->kernel, max);
	bool user = stack_table_open(&tables->user, max);

	return kernel && user;
}

static void close_tables(struct stack_tables *tables)
{
	stack_table_close(&tables->kernel);
	stack_table_close(&tables->user);
	*tables = (struct stack_tables){};
}

/* What the kernel found along frame pointers, up to the first that is no code. */
struct walked_stacks {
	struct event_stacks stacks;
	__u64 user[USER_FRAMES];
};

/* The first word that is no code stands for all the others, so that these make no stack its own. */
static void cut_walk(const struct event_store *store, const struct event_stacks *stacks,
		     struct walked_stacks *cut)
{
	uint32_t bytes =
		stacks->user_bytes < sizeof(cut->user) ? stacks->user_bytes : sizeof(cut->user);
	uint32_t frames;

	memcpy(&cut->stacks, stacks, sizeof(*stacks));
	memcpy(cut->user, stacks + 1, bytes);
	frames = count_frames(cut->user, bytes / sizeof(*cut->user), store->mappings,
			      store->mapping_count);
	if (frames < bytes / sizeof(*cut->user))
		cut->user[frames++] = NO_FRAME;
	cut->stacks.user_bytes = frames * sizeof(*cut->user);
}

static void keep_stacks(struct event_store *store, const struct event_stacks *stacks,
			struct kept_event *kept)
{
	const __u64 *kernel = stacks->kernel;
	uint32_t frames = stacks->kernel_frames;
	uint64_t kind;

	while (frames && !kernel[frames - 1])
		frames--;
	kind = hash_words(kernel, frames);
	if (frames) {
		kept->kernel_stack = stack_table_add(&store->stacks.kernel, kind, NULL, 0, kernel,
						     frames * sizeof(*kernel));
	}
	kind = hash_user_stack(stacks, store->mappings, store->mapping_count);
	kept->user_stack = stack_table_add(&store->stacks.user, kind, stacks->pages,
					   sizeof(stacks->pages) + sizeof(stacks->registers),
					   stacks + 1, stacks->user_bytes);
	if (kept->user_stack == NO_STACK || (frames && kept->kernel_stack == NO_STACK))
		store->unkept_stacks++;
}

static const struct event_stacks *taken_stacks(const struct event_store *store,
					       const struct syscall_event *event,
					       struct walked_stacks *cut)
{
	const struct event_stacks *stacks = (const void *)(event + 1);

	if (event->stack_mode != STACK_FRAME_POINTERS)
		return stacks;
	cut_walk(store, stacks, cut);
	return &cut->stacks;
}

/* The clocks of two CPUs can be some ns apart. */
static uint64_t off_cpu_ns(const struct syscall_event *event)
{
	uint64_t length_ns = event->exit_ns - event->entry_ns;

	if (event->off_cpu_ns == OFF_CPU_UNKNOWN || event->off_cpu_ns < length_ns)
		return event->off_cpu_ns;
	return length_ns;
}

static int keep(void *context, void *data, size_t size)
{
	const struct syscall_event *event = data;
	struct event_store *store = context;
	struct walked_stacks cut;
	struct kept_event kept = {
		.entry_ns = event->entry_ns,
		.exit_ns = event->exit_ns,
		.off_cpu_ns = off_cpu_ns(event),
		.value = event->value,
		.syscall = (int32_t)event->syscall,
		.tid = event->tid | (event->syscall & COMPAT_SYSCALL ? COMPAT_CALL : 0),
		.kernel_stack = NO_STACK,
		.user_stack = NO_STACK,
	};

	(void)size;
	if (event->stack_mode != STACK_NONE && longest_events_wants(&store->events, &kept))
		keep_stacks(store, taken_stacks(store, event, &cut), &kept);
	longest_events_add(&store->events, &kept);
	/* A negative value makes ring_buffer__consume() return, after this record. */
	return --store->drain_limit ? 0 : -ECANCELED;
}

/* Returns how many records were drained, of which there may be @limit. */
static uint64_t drain_some(struct event_store *store, uint64_t limit)
{
	store->drain_limit = limit;
	ring_buffer__consume(store->ring);
	return limit - store->drain_limit;
}

static void *drain(void *context)
{
	struct timespec pause = {.tv_nsec = SHORTEST_PAUSE_NS};
	struct event_store *store = context;
	bool stop = false;
	uint64_t drained;

	/* The buffer must not fill up while a busy machine lets this thread wait for a CPU. */
	setpriority(PRIO_PROCESS, gettid(), HIGHEST_PRIORITY);
	limit_capabilities(0);
	while (!stop) {
		pthread_mutex_lock(&store->lock);
		drained = drain_some(store, DRAINED_AT_ONCE);
		stop = store->stop;
		pthread_mutex_unlock(&store->lock);
		if (drained)
			pause.tv_nsec = SHORTEST_PAUSE_NS;
		else if (pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec *= 2;
		if (drained < DRAINED_AT_ONCE || store->wanted)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static void lock(struct event_store *store)
{
	store->wanted = true;
	pthread_mutex_lock(&store->lock);
	store->wanted = false;
}

struct event_store *event_store_open(int ring_fd, uint32_t ring_bytes, uint64_t max_events,
				     uint32_t max_stacks)
{
	struct event_store *store = calloc(1, sizeof(*store));
	int error = ENOMEM;

	if (!store)
		goto failed;
	pthread_mutex_init(&store->lock, NULL);
	store->ring_records = ring_bytes / sizeof(struct syscall_event) + 1;
	if (!longest_events_open(&store->events, max_events) ||
	    !open_tables(&store->stacks, max_stacks))
		goto failed;
	store->ring = ring_buffer__new(ring_fd, keep, store, NULL);
	if (!store->ring) {
		error = errno;
		goto failed;
	}
	error = pthread_create(&store->drainer, NULL, drain, store);
	store->drains = !error;
	if (store->drains)
		return store;
failed:
	if (store)
		event_store_close(store);
	errno = error;
	return NULL;
}

void event_store_close(struct event_store *store)
{
	if (store->drains) {
		lock(store);
		store->stop = true;
		pthread_mutex_unlock(&store->lock);
		pthread_join(store->drainer, NULL);
	}
	ring_buffer__free(store->ring);
	longest_events_close(&store->events);
	close_tables(&store->stacks);
	close_tables(&store->taken);
	free(store->mappings);
	free(store);
}

int event_store_set_mappings(struct event_store *store, const struct mapped_range *mappings,
			     uint32_t count)
{
	struct mapped_range *copy = malloc((count + 1) * sizeof(*copy));

	if (!copy)
		return -1;
	memcpy(copy, mappings, count * sizeof(*copy));
	lock(store);
	free(store->mappings);
	store->mappings = copy;
	store->mapping_count = count;
	pthread_mutex_unlock(&store->lock);
	return 0;
}

/* Starts tables anew, with the stacks of the events that stay; the old ones are the taken. */
static bool change_tables(struct event_store *store)
{
	struct stack_tables fresh = {};

	if (!open_tables(&fresh, store->stacks.user.max)) {
		close_tables(&fresh);
		return false;
	}
	for (uint64_t i = 0; i < store->events.count; i++) {
		struct kept_event *event = &store->events.events[i];

		event->kernel_stack =
			stack_table_copy(&fresh.kernel, &store->stacks.kernel, event->kernel_stack);
		event->user_stack =
			stack_table_copy(&fresh.user, &store->stacks.user, event->user_stack);
	}
	close_tables(&store->taken);
	store->taken = store->stacks;
	store->stacks = fresh;
	return true;
}

static bool take(struct event_store *store, uint64_t stop_ns, struct taken_events *taken)
{
	/* All that is there now, even if more keeps coming. */
	drain_some(store, store->ring_records);
	if (!longest_events_take(&store->events, stop_ns, taken))
		return false;
	if (!change_tables(store))
		return false;
	taken->kernel_stacks = store->taken.kernel.count;
	taken->user_stacks = store->taken.user.count;
	taken->unkept_stacks = store->unkept_stacks;
	store->unkept_stacks = 0;
	return true;
}

static void count_uses(struct stack_tables *stacks, const struct taken_events *taken)
{
	for (uint64_t i = 0; i < taken->count; i++) {
		stack_table_use(&stacks->kernel, taken->events[i].kernel_stack);
		stack_table_use(&stacks->user, taken->events[i].user_stack);
	}
}

int event_store_take(struct event_store *store, uint64_t stop_ns, struct taken_events *taken)
{
	bool done;

	*taken = (struct taken_events){};
	lock(store);
	done = take(store, stop_ns, taken);
	pthread_mutex_unlock(&store->lock);
	if (!done || !sort_by_entry(taken->events, taken->count)) {
		free(taken->events);
		errno = ENOMEM;
		return -1;
	}
	count_uses(&store->taken, taken);
	return 0;
}

void event_store_kernel_stack(const struct event_store *store, uint32_t index,
			      struct taken_stack *stack)
{
	stack_table_get(&store->taken.kernel, index, stack);
}

void event_store_user_stack(const struct event_store *store, uint32_t index,
			    struct taken_stack *stack)
{
	stack_table_get(&store->taken.user, index, stack);
}
