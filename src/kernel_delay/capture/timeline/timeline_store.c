// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "timeline_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "capabilities.h"
#include "kept_slices.h"
#include "tracks.h"

/* The rings are looked at this often; seldom while nothing comes. */
#define SHORTEST_PAUSE_NS 500000
#define LONGEST_PAUSE_NS 8000000

#define HIGHEST_PRIORITY (-20)

_Static_assert(sizeof(((struct taken_timeline *)0)->lost) == SLICE_CLASSES * sizeof(uint64_t),
	       "as many classes");

struct timeline_store {
	pthread_t drainer;
	bool drains;
	pthread_mutex_t lock; /* of all below */
	bool stop;
	struct timeline_ring *rings;
	const struct timeline_slice *slices;
	uint32_t cpus;
	uint32_t per_cpu;
	uint64_t ring_lost[SLICE_CLASSES]; /* by the rings, when that was last looked at */
	struct kept_slices kept;
};

/* Returns how many slices were read of the ring of @cpu. */
static uint64_t drain_ring(struct timeline_store *store, uint32_t cpu)
{
	const struct timeline_slice *slices = store->slices + (uint64_t)cpu * store->per_cpu;
	struct timeline_ring *ring = &store->rings[cpu];
	uint64_t tail = ring->tail, first = tail;
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

	while (tail != head) {
		const struct timeline_slice *slice = &slices[tail % store->per_cpu];
		struct timeline_slice copy;

		/* It is being written: by a program that was interrupted, or is on its way. */
		if (__atomic_load_n(&slice->number, __ATOMIC_ACQUIRE) != (uint32_t)(tail + 1))
			break;
		copy = *slice;
		copy.number = cpu;
		kept_slices_add(&store->kept, &copy);
		tail++;
	}
	__atomic_store_n(&ring->tail, tail, __ATOMIC_RELEASE);
	return tail - first;
}

static uint64_t drain_all(struct timeline_store *store)
{
	uint64_t drained = 0;

	for (uint32_t cpu = 0; cpu < store->cpus; cpu++)
		drained += drain_ring(store, cpu);
	return drained;
}

static void *drain(void *context)
{
	struct timespec pause = {.tv_nsec = SHORTEST_PAUSE_NS};
	struct timeline_store *store = context;
	bool stop = false;
	uint64_t drained;

	/* The rings must not fill up while a busy machine lets this thread wait for a CPU. */
	setpriority(PRIO_PROCESS, gettid(), HIGHEST_PRIORITY);
	limit_capabilities(0);
	while (!stop) {
		pthread_mutex_lock(&store->lock);
		drained = drain_all(store);
		stop = store->stop;
		pthread_mutex_unlock(&store->lock);
		if (drained > store->per_cpu / 8)
			pause.tv_nsec = SHORTEST_PAUSE_NS;
		else if (pause.tv_nsec < LONGEST_PAUSE_NS)
			pause.tv_nsec *= 2;
		nanosleep(&pause, NULL);
	}
	return NULL;
}

void timeline_store_close(struct timeline_store *store)
{
	if (store->drains) {
		pthread_mutex_lock(&store->lock);
		store->stop = true;
		pthread_mutex_unlock(&store->lock);
		pthread_join(store->drainer, NULL);
	}
	pthread_mutex_destroy(&store->lock);
	free(store->kept.slices);
	free(store);
}

struct timeline_store *timeline_store_open(void *rings, const void *slices, uint32_t cpus,
					   uint32_t per_cpu, uint64_t max_slices)
{
	struct timeline_store *store = calloc(1, sizeof(*store));
	int error;

	if (!store)
		return NULL;
	pthread_mutex_init(&store->lock, NULL);
	store->rings = rings;
	store->slices = slices;
	store->cpus = cpus;
	store->per_cpu = per_cpu;
	store->kept.max = max_slices;
	error = pthread_create(&store->drainer, NULL, drain, store);
	store->drains = !error;
	if (error) {
		timeline_store_close(store);
		errno = error;
		return NULL;
	}
	return store;
}

/* What the rings had no room for since this was last asked. */
static void add_ring_losses(struct timeline_store *store, uint64_t *lost)
{
	for (int class = 0; class < SLICE_CLASSES; class ++) {
		uint64_t now = 0;

		for (uint32_t cpu = 0; cpu < store->cpus; cpu++)
			now += __atomic_load_n(&store->rings[cpu].lost[class], __ATOMIC_RELAXED);
		lost[class] += now - store->ring_lost[class];
		store->ring_lost[class] = now;
	}
}

/* Moves what began before @stop_ns to @ended, with what was lost. */
static bool take_ended(struct timeline_store *store, uint64_t stop_ns, struct kept_slices *ended)
{
	bool moved;

	pthread_mutex_lock(&store->lock);
	drain_all(store);
	moved = kept_slices_move(&store->kept, ended, stop_ns);
	add_ring_losses(store, ended->lost);
	pthread_mutex_unlock(&store->lock);
	return moved;
}

int timeline_store_take(struct timeline_store *store, uint64_t start_ns, uint64_t stop_ns,
			const struct last_slices *threads, uint32_t count,
			struct taken_timeline *taken)
{
	struct kept_slices ended = {};
	bool done = false;

	*taken = (struct taken_timeline){};
	if (take_ended(store, stop_ns, &ended)) {
		memcpy(taken->lost, ended.lost, sizeof(taken->lost));
		done = show_slices(&ended, start_ns, stop_ns, threads, count, taken);
	}
	free(ended.slices);
	if (done)
		return 0;
	free(taken->slices);
	errno = ENOMEM;
	return -1;
}

void timeline_store_forget(struct timeline_store *store, uint64_t stop_ns)
{
	struct kept_slices ended = {};

	take_ended(store, stop_ns, &ended);
	free(ended.slices);
}
