/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Everything that a thread does, in order: a slice of each state and mode, and of each
 * interrupt, reported when it is over, by the same clock and with the same ends as it is charged.
 * So the slices add up to the account, and each stands by itself: none is needed to
 * understand another.
 *
 * Each CPU has a ring, and user space reads them. With little room left interrupts are given up
 * first, then states; what is charged never is.
 *
 * With rounds each thread has room of its own, for the first and the last slices of its newest
 * round, and user space reads those of rounds that were long.
 */
#ifndef KERNEL_DELAY_TIMELINE_H
#define KERNEL_DELAY_TIMELINE_H

#include "thread_record.h"
#include "thread.h"

/*
 * User space sets the sizes: of the first options.cpus, or else of the second
 * options.round_timelines, and of the third that times options.timeline_slices.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timeline_ring);
} timeline_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct round_timeline);
} round_timelines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timeline_slice);
} timeline SEC(".maps");

/* A constant to the verifier, which leaves out what depends on it. */
static __always_inline bool has_timeline(void)
{
	return options.timeline_slices != 0;
}

/* How many slices may be in a ring when another of this class comes. */
static __always_inline __u64 timeline_room(__u32 class)
{
	__u64 size = options.timeline_slices;

	if (class == SLICE_OF_INTERRUPT)
		return size / 2;
	return class == SLICE_OF_STATE ? size / 4 * 3 : size - SLICES_AT_ONCE;
}

/* User space reads @slice when it sees the number, and on arm64 stores have no order. */
static __always_inline void finish_slice(struct timeline_slice *slice, __u32 number)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
	*(volatile __u32 *)&slice->number = number;
#else
	__sync_lock_test_and_set(&slice->number, number);
#endif
}

static __always_inline void copy_slice(struct timeline_slice *slice,
				       const struct timeline_slice *reported)
{
	slice->since_ns = reported->since_ns;
	slice->until_ns = reported->until_ns;
	slice->thread = reported->thread;
	slice->what = reported->what;
	slice->order = reported->order;
	slice->kind = reported->kind;
	slice->mode = reported->mode;
}

static __always_inline struct round_timeline *round_timeline_at(__u64 number)
{
	__u32 slot = number & (options.round_timelines - 1);

	return number ? bpf_map_lookup_elem(&round_timelines, &slot) : NULL;
}

/* @thread is about to begin a round, of which nothing is reported yet. Not static, as
 * take_record(). */
__noinline int begin_timeline(struct thread *thread)
{
	struct round_timeline *own;

	if (!has_timeline() || !thread || *(volatile __u64 *)&control.without_timeline)
		return 0;
	if (!thread->timeline)
		thread->timeline = take_record(TIMELINE_RING, options.round_timelines - 1, 0);
	own = round_timeline_at(thread->timeline);
	if (!own)
		return 0;
	own->number = thread->timeline;
	own->thread = thread->identity;
	own->reported = 0;
	own->modes_before = thread->modes_reported;
	return 0;
}

/* Where in a thread's part of the map its slice of that number is. */
static __always_inline __u32 place_in_round(__u64 number)
{
	__u32 half = options.timeline_slices / 2;

	return number < half ? number : half + ((__u32)(number - half) & (half - 1));
}

/* Puts @reported in the thread's own ring, while its round is open; with its CPU for a number. */
static __always_inline void report_slice_of_round(const struct thread *thread,
						  const struct timeline_slice *reported)
{
	struct timeline_slice *slice;
	struct round_timeline *own;
	__u32 place;

	if (thread->round_stop_ns != NEVER_NS || *(volatile __u64 *)&control.without_timeline)
		return;
	own = round_timeline_at(thread->timeline);
	if (!own)
		return;
	place = (thread->timeline & (options.round_timelines - 1)) * options.timeline_slices +
		place_in_round(__sync_fetch_and_add(&own->reported, 1));
	slice = bpf_map_lookup_elem(&timeline, &place);
	if (!slice)
		return;
	copy_slice(slice, reported);
	slice->number = bpf_get_smp_processor_id();
}

/*
 * Puts @reported, which is of @thread, in this CPU's ring. Not static, so that it is verified once,
 * by itself.
 */
__noinline int report_slice(const struct thread *thread, const struct timeline_slice *reported,
			    __u32 class)
{
	__u32 cpu = bpf_get_smp_processor_id(), place;
	struct timeline_slice *slice;
	struct timeline_ring *ring;
	__u64 number;

	if (!has_timeline() || !thread || !reported)
		return 0;
	if (options.rounds) {
		report_slice_of_round(thread, reported);
		return 0;
	}
	ring = bpf_map_lookup_elem(&timeline_rings, &cpu);
	if (!ring)
		return 0;
	if (*(volatile __u64 *)&ring->head - *(volatile __u64 *)&ring->tail >=
	    timeline_room(class)) {
		count_up(&ring->lost[class & (SLICE_CLASSES - 1)]);
		return 0;
	}
	/* An interrupt here reports slices of its own. */
	number = __sync_fetch_and_add(&ring->head, 1);
	place = cpu * options.timeline_slices + ((__u32)number & (options.timeline_slices - 1));
	slice = bpf_map_lookup_elem(&timeline, &place);
	if (!slice)
		return 0;
	copy_slice(slice, reported);
	finish_slice(slice, number + 1);
	return 0;
}

/* Is there anything of [@since_ns, @until_ns) in the window? */
static __always_inline bool is_in_window(__u64 since_ns, __u64 until_ns,
					 const struct timestamp *timestamp)
{
	__u64 from_ns = since_ns > timestamp->start_ns ? since_ns : timestamp->start_ns;
	__u64 to_ns = until_ns < timestamp->stop_ns ? until_ns : timestamp->stop_ns;

	return from_ns < to_ns;
}

static __always_inline void report_between(const struct thread *thread, __u32 state, __u64 since_ns,
					   __u64 until_ns, const struct timestamp *timestamp)
{
	struct timeline_slice slice = {
		.since_ns = since_ns,
		.until_ns = until_ns,
		.thread = thread->identity,
		.kind = state,
		.mode = thread->mode,
	};

	if (!is_in_window(since_ns, until_ns, timestamp))
		return;
	if (state == STATE_READY_WOKEN || state == STATE_READY_PREEMPTED)
		slice.what = thread->wait_cpu;
	else if (state == STATE_BLOCKED && thread->sleep_since_ns == thread->since_ns)
		slice.what = thread->sleep_stack;
	report_slice(thread, &slice, SLICE_OF_STATE);
}

/* @thread was in @state from @since_ns until now. Not static, as report_slice(). */
__noinline int report_state(const struct thread *thread, __u32 state, __u64 since_ns,
			    const struct timestamp *timestamp)
{
	if (has_timeline() && thread && timestamp)
		report_between(thread, state, since_ns, timestamp->now_ns, timestamp);
	return 0;
}

/*
 * Of the wait that was reported last, so much in the window was throttling. It is reported as the
 * wait's end, for throttled it is until its group has the CPU again. Not static, as report_slice().
 */
__noinline int report_throttled(const struct thread *thread, __u64 length_ns,
				const struct timestamp *timestamp)
{
	__u64 until_ns;

	if (!has_timeline() || !thread || !timestamp)
		return 0;
	until_ns = timestamp->now_ns < timestamp->stop_ns ? timestamp->now_ns : timestamp->stop_ns;
	report_between(thread, STATE_THROTTLED, until_ns - length_ns, until_ns, timestamp);
	return 0;
}

/* What @thread did since @last_ns was not seen; until then it was in its state. */
__noinline int report_unknown_state(const struct thread *thread, __u64 last_ns,
				    const struct timestamp *timestamp)
{
	if (!has_timeline() || !thread || !timestamp)
		return 0;
	if (thread->state == STATE_NOT_ALIVE) {
		report_between(thread, STATE_NOT_ALIVE, thread->since_ns, timestamp->now_ns,
			       timestamp);
		return 0;
	}
	report_between(thread, thread->state, thread->since_ns, last_ns, timestamp);
	report_between(thread, STATE_UNKNOWN, last_ns, timestamp->now_ns, timestamp);
	return 0;
}

/* From its program a thread enters calls and faults, and out of these it is in its program. */
static __always_inline bool is_missed_between(__u32 before, __u32 after)
{
	return before != MODE_UNKNOWN && (before == MODE_USER) == (after == MODE_USER);
}

static __always_inline __u32 kind_of_mode(const struct thread *thread, bool missed)
{
	if (missed)
		return SLICE_UNKNOWN_MODE;
	if (thread->mode == MODE_FAULT)
		return SLICE_FAULT;
	if (thread->syscall == NO_SYSCALL)
		return SLICE_UNSEEN_CALL;
	return thread->syscall & COMPAT_SYSCALL ? SLICE_COMPAT_CALL : SLICE_CALL;
}

/*
 * @thread leaves its mode, unless an end of that was @missed. In its program it is whenever it
 * is not in a call or a fault: that is reported by their order. Not static, as report_slice().
 */
__noinline int report_mode(struct thread *thread, bool missed, const struct timestamp *timestamp)
{
	struct timeline_slice slice = {};

	if (!has_timeline() || !thread || !timestamp)
		return 0;
	if (!missed && thread->mode != MODE_SYSCALL && thread->mode != MODE_FAULT)
		return 0;
	if (!is_in_window(thread->mode_since_ns, timestamp->now_ns, timestamp))
		return 0;
	slice.since_ns = thread->mode_since_ns;
	slice.until_ns = timestamp->now_ns;
	slice.thread = thread->identity;
	slice.what = thread->syscall;
	slice.order = ++thread->modes_reported;
	slice.kind = kind_of_mode(thread, missed);
	slice.mode = thread->mode;
	report_slice(thread, &slice, SLICE_OF_MODE);
	return 0;
}

/* An interrupt on @thread's time, or a virtual machine's code. Not static, as report_slice(). */
__noinline int report_interrupt(const struct thread *thread, __u32 kind, __u32 what, __u64 since_ns,
				const struct timestamp *timestamp)
{
	struct timeline_slice slice = {
		.since_ns = since_ns,
		.what = what,
		.kind = kind,
	};

	if (!has_timeline() || !thread || !timestamp)
		return 0;
	slice.until_ns = timestamp->now_ns;
	slice.thread = thread->identity;
	slice.mode = thread->mode;
	report_slice(thread, &slice, SLICE_OF_INTERRUPT);
	return 0;
}

#endif
