/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Windows: which time counts, decided here, by each event's own clock.
 */
#ifndef KERNEL_DELAY_WINDOW_H
#define KERNEL_DELAY_WINDOW_H

#include "kernel.h"
#include "thread_records.h"

#define NEVER_NS ((__u64)-1)

const volatile struct options options SEC(".rodata.options");

/* A constant to the verifier, which leaves out what depends on it. */
static __always_inline bool reports_events(void)
{
	return options.event_ns != NEVER_NS;
}

/* Epoch 0 has no window: user space sets its boundaries so before it attaches. */
struct control control SEC(".data.control");

/* An event: when it was, in which epoch, and the window of that epoch. */
struct timestamp {
	__u64 now_ns;
	__u64 epoch;
	__u64 start_ns;
	__u64 stop_ns;
};

/*
 * The clock is read first. A boundary is set while it is still to come, so what
 * is read of the window after the clock holds for that time, however long an
 * interrupt takes in between.
 */
static __always_inline void take_timestamp_at(struct timestamp *timestamp, __u64 now_ns)
{
	const volatile struct window *window;

	timestamp->now_ns = now_ns;
	barrier();
	timestamp->epoch = *(volatile __u64 *)&control.epoch;
	window = &control.windows[timestamp->epoch & (WINDOWS - 1)];
	timestamp->start_ns = window->start_ns;
	timestamp->stop_ns = window->stop_ns;
}

static __always_inline void take_timestamp(struct timestamp *timestamp)
{
	take_timestamp_at(timestamp, bpf_ktime_get_ns());
}

/* Did what began at @since_ns and ends now lie within the window? */
static __always_inline bool is_within(const struct timestamp *timestamp, __u64 since_ns)
{
	return since_ns >= timestamp->start_ns && timestamp->now_ns < timestamp->stop_ns;
}

static __always_inline void count_up(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline void add_interval(struct intervals *intervals, __u64 length_ns)
{
	if (!intervals->count || length_ns < intervals->min_ns)
		intervals->min_ns = length_ns;
	if (length_ns > intervals->max_ns)
		intervals->max_ns = length_ns;
	intervals->total_ns += length_ns;
	intervals->count++;
}

static __always_inline void count_interval(struct intervals *intervals,
					   const struct timestamp *timestamp, __u64 since_ns)
{
	if (timestamp->now_ns < since_ns)
		count_up(&control.clamped_lengths);
	add_interval(intervals, length_since(timestamp->now_ns, since_ns));
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

#endif
