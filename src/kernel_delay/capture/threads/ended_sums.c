/* SPDX-License-Identifier: Apache-2.0 */
#include "ended_sums.h"

#include <stdlib.h>
#include <string.h>

struct ended_name *ended_name_new(const char *comm)
{
	struct ended_name *name = calloc(1, sizeof(*name));

	if (!name)
		return NULL;
	strncpy(name->thread.comm, comm, COMM_LENGTH - 1);
	name->thread.exited = 1;
	return name;
}

void ended_name_free(struct ended_name *name)
{
	free(name->syscalls);
	free(name->hard_irqs);
	free(name->owners);
	free(name->sleeps);
	free(name);
}

static void add_intervals(struct intervals *sum, const struct intervals *more)
{
	if (!more->count)
		return;
	if (!sum->count || more->min_ns < sum->min_ns)
		sum->min_ns = more->min_ns;
	if (more->max_ns > sum->max_ns)
		sum->max_ns = more->max_ns;
	sum->total_ns += more->total_ns;
	sum->count += more->count;
}

static void add_histogram(struct histogram *sum, const struct histogram *more)
{
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->counts[i] += more->counts[i];
}

static void add_account(struct account *sum, const struct account *more)
{
	sum->not_alive_ns += more->not_alive_ns;
	sum->other_tasks_ns += more->other_tasks_ns;
	sum->unknown_tasks_ns += more->unknown_tasks_ns;
	sum->other_owners_ns += more->other_owners_ns;
	sum->short_sleeps += more->short_sleeps;
	sum->short_sleeps_ns += more->short_sleeps_ns;
	sum->other_sleeps += more->other_sleeps;
	sum->other_sleeps_ns += more->other_sleeps_ns;
	sum->tool_ns += more->tool_ns;
	for (int mode = 0; mode < MODE_SLOTS; mode++) {
		sum->mode_ns[mode] += more->mode_ns[mode];
		sum->hard_irq_ns[mode] += more->hard_irq_ns[mode];
		sum->soft_irq_ns[mode] += more->soft_irq_ns[mode];
		for (int state = 0; state < STATE_SLOTS; state++)
			sum->state_ns[mode][state] += more->state_ns[mode][state];
	}
}

int ended_account_fits(const struct account *account, uint64_t start_ns)
{
	uint64_t charged_ns = account->not_alive_ns;

	for (int mode = 0; mode < MODE_SLOTS; mode++)
		charged_ns += account->mode_ns[mode];
	return !account->exit_ns || account->exit_ns <= start_ns ||
	       charged_ns <= account->exit_ns - start_ns;
}

void ended_name_add_thread(struct ended_name *name, const struct thread_record *more,
			   uint64_t start_ns)
{
	struct thread_record *sum = &name->thread;

	add_intervals(&sum->long_poll, &more->long_poll);
	add_intervals(&sum->run, &more->run);
	add_intervals(&sum->ready, &more->ready);
	add_intervals(&sum->stopped, &more->stopped);
	for (int i = 0; i < SOFT_IRQ_VECTORS; i++)
		add_intervals(&sum->soft_irqs[i], &more->soft_irqs[i]);
	/* What does not fit together is unaccounted. */
	if (ended_account_fits(&more->account, start_ns))
		add_account(&sum->account, &more->account);
	sum->account.faults += more->account.faults;
	sum->account.signals += more->account.signals;
	add_histogram(&sum->account.run, &more->account.run);
	add_histogram(&sum->account.ready, &more->account.ready);
}

/* One more at the end of an array that has @count, NULL where there is no room. */
static void *one_more(void **array, size_t *count, size_t bytes)
{
	void *larger;

	if (*count == ENDED_PARTS)
		return NULL;
	/* In steps of powers of two. */
	if (!(*count & (*count - 1))) {
		larger = realloc(*array, (*count ? 2 * *count : 1) * bytes);
		if (!larger)
			return NULL;
		*array = larger;
	}
	larger = (char *)*array + (*count)++ * bytes;
	memset(larger, 0, bytes);
	return larger;
}

int ended_name_add_syscall(struct ended_name *name, const struct syscall_record *more)
{
	struct syscall_record *sum = NULL;

	for (size_t i = 0; i < name->syscall_count && !sum; i++)
		if (name->syscalls[i].syscall == more->syscall)
			sum = &name->syscalls[i];
	if (!sum) {
		sum = one_more((void **)&name->syscalls, &name->syscall_count, sizeof(*sum));
		if (!sum)
			return 0;
		sum->syscall = more->syscall;
	}
	add_intervals(&sum->calls, &more->calls);
	sum->without_entry += more->without_entry;
	sum->across += more->across;
	sum->timed_out += more->timed_out;
	sum->boundary_ns += more->boundary_ns;
	for (int state = 0; state < STATE_SLOTS; state++)
		sum->state_ns[state] += more->state_ns[state];
	add_histogram(&sum->lengths, &more->lengths);
	return 1;
}

int ended_name_add_hard_irq(struct ended_name *name, const struct hard_irq_record *more)
{
	struct hard_irq_record *sum = NULL;

	for (size_t i = 0; i < name->hard_irq_count && !sum; i++)
		if (name->hard_irqs[i].action == more->action)
			sum = &name->hard_irqs[i];
	if (!sum) {
		sum = one_more((void **)&name->hard_irqs, &name->hard_irq_count, sizeof(*sum));
		if (!sum)
			return 0;
		sum->action = more->action;
		memcpy(sum->name, more->name, sizeof(sum->name));
	}
	add_intervals(&sum->runs, &more->runs);
	return 1;
}

void ended_name_add_owner(struct ended_name *name, const struct owner_record *more)
{
	struct owner_record *sum = NULL;

	for (size_t i = 0; i < name->owner_count && !sum; i++)
		if (name->owners[i].lock == more->lock &&
		    name->owners[i].info.task == more->info.task)
			sum = &name->owners[i];
	if (!sum && name->owner_count < ENDED_OWNERS) {
		sum = one_more((void **)&name->owners, &name->owner_count, sizeof(*sum));
		if (sum) {
			sum->lock = more->lock;
			sum->info = more->info;
		}
	}
	if (sum) {
		sum->waits += more->waits;
		sum->total_ns += more->total_ns;
	} else if (more->lock) {
		name->thread.account.other_owners_ns += more->total_ns;
	} else {
		name->thread.account.other_tasks_ns += more->total_ns;
	}
}

static int is_same_sleep(const struct sleep_record *one, const struct sleep_record *other)
{
	return one->stack == other->stack && one->syscall == other->syscall &&
	       one->waker.task == other->waker.task && one->waker_kind == other->waker_kind &&
	       one->waker_stack == other->waker_stack &&
	       one->uninterruptible == other->uninterruptible;
}

void ended_name_add_sleep(struct ended_name *name, const struct sleep_record *more)
{
	struct sleep_record *sum = NULL;

	for (size_t i = 0; i < name->sleep_count && !sum; i++)
		if (is_same_sleep(&name->sleeps[i], more))
			sum = &name->sleeps[i];
	if (!sum && name->sleep_count < ENDED_SLEEPS) {
		sum = one_more((void **)&name->sleeps, &name->sleep_count, sizeof(*sum));
		if (sum) {
			*sum = *more;
			return;
		}
	}
	if (sum) {
		sum->sleeps += more->sleeps;
		sum->total_ns += more->total_ns;
		sum->short_ns += more->short_ns;
		if (more->max_ns > sum->max_ns)
			sum->max_ns = more->max_ns;
	} else {
		name->thread.account.other_sleeps += more->sleeps;
		name->thread.account.other_sleeps_ns += more->total_ns;
	}
}
