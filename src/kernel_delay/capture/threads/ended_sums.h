/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the records of a thread that ended to the sums of all threads of its name. */
#ifndef KERNEL_DELAY_ENDED_SUMS_H
#define KERNEL_DELAY_ENDED_SUMS_H

#include "ended_threads.h"

/* NULL where there is no memory. */
struct ended_name *ended_name_new(const char *comm);
void ended_name_free(struct ended_name *name);

/* Is no more charged than there was of the window? */
int ended_account_fits(const struct account *account, uint64_t start_ns);

void ended_name_add_thread(struct ended_name *name, const struct thread_record *more,
			   uint64_t start_ns);

/* These return 0 where there is no room. */
int ended_name_add_syscall(struct ended_name *name, const struct syscall_record *more);
int ended_name_add_hard_irq(struct ended_name *name, const struct hard_irq_record *more);

/* Of those for whom there is no room the sum of the waits stays. */
void ended_name_add_owner(struct ended_name *name, const struct owner_record *more);
void ended_name_add_sleep(struct ended_name *name, const struct sleep_record *more);

#endif
