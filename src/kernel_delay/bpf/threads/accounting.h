/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where all of a window went. Each interval of a thread's time, clipped to
 * the window, is charged when it ends; what is still going on at the window's
 * end user space adds, from the thread's state.
 *
 * The intervals of modes follow one on the other without a gap, those of
 * states too, and each kind has one writer. So what is charged to modes sums
 * up to the window exactly, whatever interrupts what.
 */
#ifndef KERNEL_DELAY_ACCOUNTING_H
#define KERNEL_DELAY_ACCOUNTING_H

#include "timeline.h"
#include "totals.h"

/* How much of what began at @since_ns and ends now is in the window. */
static __always_inline __u64 clip(const struct timestamp *timestamp, __u64 since_ns)
{
	__u64 from_ns = since_ns > timestamp->start_ns ? since_ns : timestamp->start_ns;
	__u64 to_ns =
		timestamp->now_ns < timestamp->stop_ns ? timestamp->now_ns : timestamp->stop_ns;

	return length_since(to_ns, from_ns);
}

/*
 * @shift, if @value has bits from there on, and else 0. Without a branch: the
 * verifier would follow each way through log2_of() to the program's end. The
 * compiler must not know what the sign stands for.
 */
static __always_inline __u32 shift_if_above(__u64 value, __u32 shift)
{
	__u64 sign = 0 - (value >> shift);

	barrier_var(sign);
	return (sign >> 63) * shift;
}

static __always_inline __u32 log2_of(__u64 length_ns)
{
	__u64 left = length_ns;
	__u32 log2 = 0, shift;

	if (length_ns >> 32)
		return HISTOGRAM_BUCKETS - 1;
	shift = shift_if_above(left, 16);
	left >>= shift;
	log2 += shift;
	shift = shift_if_above(left, 8);
	left >>= shift;
	log2 += shift;
	shift = shift_if_above(left, 4);
	left >>= shift;
	log2 += shift;
	shift = shift_if_above(left, 2);
	left >>= shift;
	return log2 + shift + (left >> 1);
}

static __always_inline void count_length(struct histogram *histogram,
					 const struct timestamp *timestamp, __u64 since_ns)
{
	__u32 bucket;

	if (!options.accounting)
		return;
	bucket = log2_of(length_since(timestamp->now_ns, since_ns));
	barrier_var(bucket);
	histogram->counts[bucket & (HISTOGRAM_BUCKETS - 1)]++;
}

/* Charges the time in the mode that @thread is leaving, or dying in. */
static __always_inline void charge_mode(const struct thread *thread, struct thread_record *record,
					const struct timestamp *timestamp)
{
	if (options.accounting && record)
		record->account.mode_ns[thread->mode & (MODE_SLOTS - 1)] +=
			clip(timestamp, thread->mode_since_ns);
}

/* @thread enters @mode; an end of the one before may have been @missed. */
static __always_inline void change_mode(struct thread *thread, struct thread_record *record,
					enum execution_context mode, bool missed,
					const struct timestamp *timestamp)
{
	charge_mode(thread, record, timestamp);
	add_mode_total(thread, timestamp);
	if (has_timeline())
		tell_mode(thread, missed, timestamp);
	thread->mode = mode;
	thread->ran_ns = 0;
	if (options.totals)
		thread->ran_total_ns = 0;
	/* The clock of another CPU can be some ns behind (kernel/time/timekeeping.c). */
	if (timestamp->now_ns > thread->mode_since_ns)
		thread->mode_since_ns = timestamp->now_ns;
}

static __always_inline void enter_mode(struct thread *thread, struct thread_record *record,
				       enum execution_context mode,
				       const struct timestamp *timestamp)
{
	change_mode(thread, record, mode, is_missed_between(thread->mode, mode), timestamp);
}

#endif
