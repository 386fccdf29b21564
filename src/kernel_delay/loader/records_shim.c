/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory shared with the programs, in the order they rely on: a window's
 * boundaries are there before its number is.
 */
#include "records_shim.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t load_counter(const __u64 *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

void store_counter(__u64 *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

/* Sets the bit of the process in @words, or clears it, whatever the programs do to its neighbours.
 */
void mark_process(uint64_t *words, uint32_t tgid, int is_marked)
{
	uint64_t bit = 1ull << tgid % 64;

	if (is_marked)
		__atomic_or_fetch(&words[tgid / 64], bit, __ATOMIC_RELEASE);
	else
		__atomic_and_fetch(&words[tgid / 64], ~bit, __ATOMIC_RELEASE);
}

/*
 * Frees the places of the windows before @epoch's, or all if it is 0. No
 * program may be running that could have seen one of them as the newest.
 */
void free_windows(struct control *control, uint64_t epoch)
{
	uint64_t until = epoch ? epoch : WINDOWS;

	for (uint64_t freed = control->windows_kept; freed < until; freed++) {
		struct window *window = &control->windows[freed % WINDOWS];

		memset(window, 0, sizeof(*window));
		window->start_ns = UINT64_MAX;
		window->stop_ns = UINT64_MAX;
	}
	store_counter(&control->windows_kept, epoch);
}

/* Opens the next window: a new epoch. */
void publish_window(struct control *control, uint64_t start_ns, uint64_t stop_ns)
{
	uint64_t epoch = control->epoch + 1;
	struct window *window = &control->windows[epoch % WINDOWS];

	window->start_ns = start_ns;
	window->stop_ns = stop_ns;
	store_counter(&control->epoch, epoch);
}

/* Moves the end of @epoch's window forward to @stop_ns. Returns 0 if it is not later. */
int end_window(struct control *control, uint64_t epoch, uint64_t stop_ns)
{
	__u64 *boundary = &control->windows[epoch % WINDOWS].stop_ns;
	__u64 old_ns = load_counter(boundary);

	while (stop_ns < old_ns)
		if (__atomic_compare_exchange_n(boundary, &old_ns, stop_ns, 0, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return 1;
	return 0;
}

/*
 * Of @slots records of @bytes each, each of which begins with its number and that of its
 * thread_record: puts the slots of those that are of the thread_record of slot @owner, in
 * whatever round, to @found. Returns how many there are.
 */
uint32_t find_parts(const void *records, size_t bytes, uint32_t slots, uint64_t owner,
		    uint32_t *found)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < slots; slot++) {
		const __u64 *record = (const void *)((const char *)records + slot * bytes);

		if (record[1] && record[1] % ROUND_SLOTS == owner)
			found[count++] = slot;
	}
	return count;
}

/* Lets the programs use a @slot again; @freed is the ring's own list, of @freed_slots. */
void free_slot(struct ring_position *position, uint64_t *freed, uint32_t freed_slots, uint32_t slot)
{
	freed[position->freed % freed_slots] = slot;
	store_counter(&position->freed, position->freed + 1);
}

/*
 * The same as find_parts() of all thread_records whose @is_owner is set, by their slots; frees
 * those slots.
 */
void free_parts(void *records, size_t bytes, uint32_t slots, const uint8_t *is_owner,
		struct ring_position *position, uint64_t *freed, uint32_t freed_slots)
{
	for (uint32_t slot = 0; slot < slots; slot++) {
		__u64 *record = (void *)((char *)records + slot * bytes);

		if (!record[1] || !is_owner[record[1] % ROUND_SLOTS])
			continue;
		/* A thread that comes by it later must not take it for its own. */
		record[1] = 0;
		free_slot(position, freed, freed_slots, slot);
	}
}

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/*
 * Waits until every program that is running now has ended: programs run under
 * rcu_read_lock(), and this command is synchronize_rcu()
 * (kernel/sched/membarrier.c). Returns 0 or an errno.
 */
int wait_for_programs(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) ? errno : 0;
}
