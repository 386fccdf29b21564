/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a window that ended before it did, summed up by their names:
 * their records' places are then free for those of other threads.
 */
#ifndef KERNEL_DELAY_ENDED_THREADS_H
#define KERNEL_DELAY_ENDED_THREADS_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

#include "thread_records.h"

/* Names that are distinguished; the threads of all others have OTHER_NAMES. */
#define ENDED_NAMES 256

/* System calls, and interrupt handlers, of one name. */
#define ENDED_PARTS 1024

/* Those who had what the threads of one name waited for; as many as of one thread. */
#define ENDED_OWNERS (OWNER_LISTS * OWNERS_PER_LIST)
#define ENDED_SLEEPS (SLEEP_LISTS * SLEEPS_PER_LIST)

/*
 * The threads of one name. thread.account is of all of their windows, one
 * after the other, but for what came after each one's end.
 */
struct ended_name {
	uint64_t threads;
	uint64_t after_start_ns; /* from the window's start to their ends, together */
	struct thread_record thread;
	struct syscall_record *syscalls;
	struct hard_irq_record *hard_irqs;
	struct owner_record *owners;
	struct sleep_record *sleeps;
	size_t syscall_count;
	size_t hard_irq_count;
	size_t owner_count;
	size_t sleep_count;
};

struct ended_threads;

/*
 * Of the rings in @control and their records, with @places each, in the
 * order of the rings. @freed are the lists, of @freed_slots each. NULL where
 * there is no memory.
 */
struct ended_threads *
ended_threads_open(struct control *control, const struct thread_record *threads,
		   const struct syscall_record *syscalls, const struct hard_irq_record *hard_irqs,
		   const struct owner_record *owners, const struct sleep_record *sleeps,
		   const uint32_t places[5], uint64_t *freed, uint32_t freed_slots);
void ended_threads_close(struct ended_threads *ended);

/*
 * Sums up the threads that ended within the epoch's window so far, and frees
 * their records' places, for others of the epoch if @reuse. All older epochs'
 * must be released. Returns how many there were, or -1 where there is no memory.
 */
int64_t ended_threads_sum_up(struct ended_threads *ended, uint64_t epoch, uint64_t start_ns,
			     uint64_t stop_ns, int reuse);

/* From now on no place is taken: all that were is known once the programs that run have ended. */
void ended_threads_stop(struct ended_threads *ended);

/* Forgets them, once the epoch's records are released. */
void ended_threads_forget(struct ended_threads *ended);

size_t ended_threads_names(const struct ended_threads *ended);
struct ended_name *ended_threads_name(const struct ended_threads *ended, size_t index);

/* Which of the names a thread of that id had that was summed up; -1 if none was. */
int ended_threads_name_of(const struct ended_threads *ended, uint32_t tid);

/* Whether that record of a ring was summed up. */
int ended_threads_has(const struct ended_threads *ended, uint32_t ring, uint64_t number);

/* Numbers of records that were made in freed places, at most @room; returns how many. */
size_t ended_threads_reused(const struct ended_threads *ended, uint32_t ring, uint64_t *numbers,
			    size_t room);

/*
 * Sets when the programs send the next notice: at half of what is left
 * of a ring; of those of owners and of sleeps never.
 */
void ended_threads_set_notices(struct ended_threads *ended);

/* Whether it was time for a notice since. */
int ended_threads_noticed(const struct ended_threads *ended);

#endif
