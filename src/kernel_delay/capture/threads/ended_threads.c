/* SPDX-License-Identifier: Apache-2.0 */
#include "ended_threads.h"
#include "ended_sums.h"

#include <stdlib.h>
#include <string.h>

#define OTHER_NAMES "[other names]"
#define NO_NOTICE UINT64_MAX

/* PID_MAX_LIMIT, include/linux/threads.h, 5.14 to 6.18 */
#define TIDS (4 << 20)

/* The rings of what is summed up: all before that of timelines, which only rounds have. */
#define SUMMED_RINGS TIMELINE_RING

struct ring {
	struct ring_position *position;
	const char *records;
	size_t record_bytes;
	uint32_t places; /* a power of two */
	uint64_t *freed;
	uint64_t *done; /* of each place, the number of its record if that was summed up */
};

/* What all records begin with; a thread's own has its epoch where the others have their thread. */
struct head {
	__u64 number;
	__u64 thread;
};

struct ended_threads {
	struct ring rings[SUMMED_RINGS];
	uint32_t freed_slots;
	uint64_t *marked; /* of each place of threads, the number of the record that is summed up */
	uint16_t *name_of; /* of each place of threads that is marked */
	uint64_t *identities; /* of the threads that are marked, hashed; 0: none */
	uint16_t *name_of_tid; /* of each id that a thread can have, the name's index and 1; or NULL
				*/
	struct ended_name *names[ENDED_NAMES];
	size_t name_count;
};

static uint64_t load(const __u64 *number)
{
	return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

static void store(__u64 *number, uint64_t value)
{
	__atomic_store_n(number, value, __ATOMIC_RELEASE);
}

static const struct head *head_at(const struct ring *ring, uint32_t place)
{
	return (const struct head *)(ring->records + place * ring->record_bytes);
}

/* How many of the places, from the one after the tail on, were ever taken since. */
static uint32_t places_taken(const struct ring *ring)
{
	uint64_t taken = load(&ring->position->head) - ring->position->tail;

	return taken < ring->places ? taken : ring->places;
}

static uint32_t place_after_tail(const struct ring *ring, uint32_t index)
{
	return (ring->position->tail + 1 + index) & (ring->places - 1);
}

/* The number of the record there, or 0 if there is none that is not summed up. */
static uint64_t number_at(const struct ring *ring, uint32_t place)
{
	uint64_t number = load(&head_at(ring, place)->number);

	return number == ring->done[place] ? 0 : number;
}

struct ended_threads *
ended_threads_open(struct control *control, const struct thread_record *threads,
		   const struct syscall_record *syscalls, const struct hard_irq_record *hard_irqs,
		   const struct owner_record *owners, const struct sleep_record *sleeps,
		   const uint32_t places[5], uint64_t *freed, uint32_t freed_slots)
{
	const void *const records[SUMMED_RINGS] = {threads, syscalls, hard_irqs, owners, sleeps};
	static const size_t bytes[SUMMED_RINGS] = {
		sizeof(struct thread_record),	sizeof(struct syscall_record),
		sizeof(struct hard_irq_record), sizeof(struct owner_record),
		sizeof(struct sleep_record),
	};
	struct ended_threads *ended = calloc(1, sizeof(*ended));
	int whole = 1;

	if (!ended)
		return NULL;
	ended->freed_slots = freed_slots;
	for (int i = 0; i < SUMMED_RINGS; i++) {
		ended->rings[i] = (struct ring){
			.position = &control->rings[i],
			.records = records[i],
			.record_bytes = bytes[i],
			.places = places[i],
			.freed = freed + (size_t)i * freed_slots,
			.done = calloc(places[i], sizeof(uint64_t)),
		};
		whole &= ended->rings[i].done != NULL;
	}
	ended->marked = calloc(places[THREAD_RING], sizeof(*ended->marked));
	ended->name_of = calloc(places[THREAD_RING], sizeof(*ended->name_of));
	ended->identities = calloc(2 * places[THREAD_RING], sizeof(*ended->identities));
	if (!whole || !ended->marked || !ended->name_of || !ended->identities) {
		ended_threads_close(ended);
		return NULL;
	}
	return ended;
}

static void free_names(struct ended_threads *ended)
{
	for (size_t i = 0; i < ended->name_count; i++)
		ended_name_free(ended->names[i]);
	ended->name_count = 0;
}

void ended_threads_close(struct ended_threads *ended)
{
	if (!ended)
		return;
	free_names(ended);
	for (int i = 0; i < SUMMED_RINGS; i++)
		free(ended->rings[i].done);
	free(ended->marked);
	free(ended->name_of);
	free(ended->identities);
	free(ended->name_of_tid);
	free(ended);
}

/* The place of @identity in the hash, or of none if it is not in there. */
static uint64_t *find_identity(const struct ended_threads *ended, uint64_t identity)
{
	uint32_t size = 2 * ended->rings[THREAD_RING].places;
	uint32_t at = identity & (size - 1);

	while (ended->identities[at] && ended->identities[at] != identity)
		at = (at + 1) & (size - 1);
	return &ended->identities[at];
}

/* NULL where there is no memory. @index is set to the name's. */
static struct ended_name *name_of(struct ended_threads *ended, const char *comm, uint16_t *index)
{
	struct ended_name *name;

	for (;;) {
		for (size_t i = 0; i < ended->name_count; i++) {
			if (!strncmp(ended->names[i]->thread.comm, comm, COMM_LENGTH)) {
				*index = i;
				return ended->names[i];
			}
		}
		if (ended->name_count < ENDED_NAMES - 1 || !strcmp(comm, OTHER_NAMES))
			break;
		comm = OTHER_NAMES;
	}
	if (ended->name_count == ENDED_NAMES)
		return NULL;
	name = ended_name_new(comm);
	if (!name)
		return NULL;
	*index = ended->name_count;
	ended->names[ended->name_count++] = name;
	return name;
}

static void free_place(struct ended_threads *ended, struct ring *ring, uint32_t place)
{
	struct ring_position *position = ring->position;

	ring->done[place] = head_at(ring, place)->number;
	ring->freed[position->freed & (ended->freed_slots - 1)] = place;
	store(&position->freed, position->freed + 1);
}

/* Marks the records of threads that ended; returns how many, or -1 where there is no memory. */
static int64_t mark_ended(struct ended_threads *ended, uint64_t epoch, uint64_t start_ns,
			  uint64_t stop_ns)
{
	struct ring *ring = &ended->rings[THREAD_RING];
	uint32_t taken = places_taken(ring);
	struct ended_name *name;
	int64_t found = 0;

	/* It takes memory only where ids are noted. */
	if (!ended->name_of_tid)
		ended->name_of_tid = calloc(TIDS, sizeof(*ended->name_of_tid));
	if (!ended->name_of_tid)
		return -1;
	memset(ended->marked, 0, ring->places * sizeof(*ended->marked));
	memset(ended->identities, 0, 2 * ring->places * sizeof(*ended->identities));
	for (uint32_t i = 0; i < taken; i++) {
		uint32_t place = place_after_tail(ring, i);
		uint64_t number = number_at(ring, place), exit_ns;
		const struct thread_record *thread = (const void *)head_at(ring, place);

		if (!number || thread->epoch != epoch)
			continue;
		exit_ns = load(&thread->account.exit_ns);
		if (!exit_ns || exit_ns >= stop_ns)
			continue;
		name = name_of(ended, thread->comm, &ended->name_of[place]);
		if (!name)
			return -1;
		ended->marked[place] = number;
		ended->name_of_tid[thread->own_tid % TIDS] = ended->name_of[place] + 1;
		*find_identity(ended, thread->identity) = thread->identity;
		if (exit_ns <= start_ns)
			continue;
		name->threads++;
		name->after_start_ns += exit_ns - start_ns;
		found++;
	}
	return found;
}

/* The further records of the same threads: an interrupt may come just while the first is made. */
static int mark_further(struct ended_threads *ended, uint64_t epoch)
{
	struct ring *ring = &ended->rings[THREAD_RING];
	uint32_t taken = places_taken(ring);

	for (uint32_t i = 0; i < taken; i++) {
		uint32_t place = place_after_tail(ring, i);
		const struct thread_record *thread = (const void *)head_at(ring, place);
		uint64_t number = number_at(ring, place);

		if (!number || thread->epoch != epoch || ended->marked[place] ||
		    !*find_identity(ended, thread->identity))
			continue;
		if (!name_of(ended, thread->comm, &ended->name_of[place]))
			return 0;
		ended->marked[place] = number;
	}
	return 1;
}

static void add_parts(struct ended_threads *ended, uint32_t index, uint64_t start_ns)
{
	struct ring *ring = &ended->rings[index];
	uint32_t mask = ended->rings[THREAD_RING].places - 1, taken = places_taken(ring);

	for (uint32_t i = 0; i < taken; i++) {
		uint32_t place = place_after_tail(ring, i);
		const struct head *head = head_at(ring, place);
		const struct thread_record *thread;
		struct ended_name *name;
		int added = 1;

		if (!number_at(ring, place) || ended->marked[head->thread & mask] != head->thread)
			continue;
		name = ended->names[ended->name_of[head->thread & mask]];
		thread = (const void *)head_at(&ended->rings[THREAD_RING], head->thread & mask);
		if (index == SYSCALL_RING)
			added = ended_name_add_syscall(name, (const void *)head);
		else if (index == HARD_IRQ_RING)
			added = ended_name_add_hard_irq(name, (const void *)head);
		else if (!ended_account_fits(&thread->account, start_ns))
			; /* as the account, these are unknown */
		else if (index == OWNER_RING)
			ended_name_add_owner(name, (const void *)head);
		else
			ended_name_add_sleep(name, (const void *)head);
		if (added)
			free_place(ended, ring, place);
	}
}

static void add_threads(struct ended_threads *ended, uint64_t start_ns)
{
	struct ring *ring = &ended->rings[THREAD_RING];

	for (uint32_t place = 0; place < ring->places; place++) {
		if (!ended->marked[place])
			continue;
		ended_name_add_thread(ended->names[ended->name_of[place]],
				      (const void *)head_at(ring, place), start_ns);
		free_place(ended, ring, place);
	}
}

int64_t ended_threads_sum_up(struct ended_threads *ended, uint64_t epoch, uint64_t start_ns,
			     uint64_t stop_ns, int reuse)
{
	int64_t found = mark_ended(ended, epoch, start_ns, stop_ns);

	if (found < 0 || !mark_further(ended, epoch))
		return -1;
	/* Their parts first: the thread's record shows whose they are. */
	for (uint32_t ring = SYSCALL_RING; ring < SUMMED_RINGS; ring++)
		add_parts(ended, ring, start_ns);
	add_threads(ended, start_ns);
	for (int i = 0; i < SUMMED_RINGS && reuse; i++)
		store(&ended->rings[i].position->freed_epoch, epoch);
	return found;
}

void ended_threads_stop(struct ended_threads *ended)
{
	for (int i = 0; i < SUMMED_RINGS; i++)
		store(&ended->rings[i].position->freed_epoch, NO_FREED_EPOCH);
}

void ended_threads_forget(struct ended_threads *ended)
{
	free_names(ended);
	free(ended->name_of_tid);
	ended->name_of_tid = NULL;
	for (int i = 0; i < SUMMED_RINGS; i++) {
		struct ring *ring = &ended->rings[i];

		store(&ring->position->freed_taken, ring->position->freed);
		memset(ring->done, 0, ring->places * sizeof(*ring->done));
	}
}

size_t ended_threads_names(const struct ended_threads *ended)
{
	return ended->name_count;
}

struct ended_name *ended_threads_name(const struct ended_threads *ended, size_t index)
{
	return ended->names[index];
}

int ended_threads_name_of(const struct ended_threads *ended, uint32_t tid)
{
	if (!tid || tid >= TIDS || !ended->name_of_tid)
		return -1;
	return ended->name_of_tid[tid] - 1;
}

int ended_threads_has(const struct ended_threads *ended, uint32_t ring, uint64_t number)
{
	return ended->rings[ring].done[number & (ended->rings[ring].places - 1)] == number;
}

size_t ended_threads_reused(const struct ended_threads *ended, uint32_t ring, uint64_t *numbers,
			    size_t room)
{
	const struct ring *it = &ended->rings[ring];
	size_t count = 0;

	for (uint32_t place = 0; place < it->places && count < room; place++)
		if (it->done[place] && number_at(it, place))
			numbers[count++] = number_at(it, place);
	return count;
}

void ended_threads_set_notices(struct ended_threads *ended)
{
	for (int i = 0; i < SUMMED_RINGS; i++) {
		struct ring_position *position = ended->rings[i].position;
		uint64_t head = load(&position->head), taken = load(&position->freed_taken);
		uint64_t left = ended->rings[i].places - (head - position->tail);
		uint64_t freed = position->freed - taken;

		/* Who has no room there is in a sum: that is worth no thread's details. */
		if (i == OWNER_RING || i == SLEEP_RING) {
			store(&position->notice_freed, NO_NOTICE);
			store(&position->notice_head, NO_NOTICE);
			continue;
		}
		store(&position->notice_freed, freed ? taken + (freed + 1) / 2 : NO_NOTICE);
		store(&position->notice_head, head + (left + 1) / 2);
	}
}

int ended_threads_noticed(const struct ended_threads *ended)
{
	for (int i = 0; i < SUMMED_RINGS; i++) {
		const struct ring_position *position = ended->rings[i].position;

		if (load(&position->head) >= position->notice_head ||
		    load(&position->freed_taken) >= position->notice_freed)
			return 1;
	}
	return 0;
}
