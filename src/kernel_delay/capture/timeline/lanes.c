// SPDX-License-Identifier: Apache-2.0
/*
 * A thread has three lanes: its states follow one another without a gap, so that a gap is what
 * is missing; its modes do with their order; and interrupts come whenever they do.
 */
#include "lanes.h"

#include <stdlib.h>

enum lane { STATES, MODES, INTERRUPTS, LANES };

static enum lane lane_of(uint8_t kind)
{
	static const enum lane lanes[SLICE_CLASSES] = {
		[SLICE_OF_INTERRUPT] = INTERRUPTS,
		[SLICE_OF_STATE] = STATES,
		[SLICE_OF_MODE] = MODES,
	};

	return lanes[class_of(kind)];
}

static int compare(uint64_t one, uint64_t other)
{
	return (one > other) - (one < other);
}

static int by_lane(const void *left, const void *right)
{
	const struct timeline_slice *one = left, *other = right;
	int order = compare(one->thread, other->thread);

	if (!order)
		order = compare(lane_of(one->kind), lane_of(other->kind));
	if (!order)
		order = compare(one->since_ns, other->since_ns);
	/* What holds another comes first. */
	return order ? order : compare(other->until_ns, one->until_ns);
}

/* A lane as it is made, and how far it goes. */
struct lane_maker {
	struct shown_slice *slices;
	uint64_t count;
	uint64_t room;
	uint64_t reached_ns;
};

struct span {
	uint64_t start_ns;
	uint64_t stop_ns;
};

static bool append(struct lane_maker *lane, const struct shown_slice *slice)
{
	if (lane->count == lane->room) {
		uint64_t room = lane->room ? 2 * lane->room : 256;
		struct shown_slice *slices = realloc(lane->slices, room * sizeof(*slices));

		if (!slices)
			return false;
		lane->slices = slices;
		lane->room = room;
	}
	lane->slices[lane->count++] = *slice;
	return true;
}

static bool is_ready(uint8_t kind)
{
	return kind == STATE_READY_WOKEN || kind == STATE_READY_PREEMPTED;
}

static uint16_t cpu_of(const struct timeline_slice *told)
{
	switch (told->kind) {
	case STATE_RUNNING:
	case STATE_GUEST:
	case SLICE_HARD_IRQ:
	case SLICE_SOFT_IRQ:
		return told->number;
	case STATE_READY_WOKEN:
	case STATE_READY_PREEMPTED:
		return told->what ? told->what - 1 : NO_CPU;
	default:
		return NO_CPU;
	}
}

/* Appends what of @told lies in the window, from @from_ns on. */
static bool show(struct lane_maker *lane, const struct timeline_slice *told, uint32_t thread,
		 uint64_t from_ns, const struct span *window)
{
	uint64_t start_ns = told->since_ns > from_ns ? told->since_ns : from_ns;
	uint64_t stop_ns = told->until_ns < window->stop_ns ? told->until_ns : window->stop_ns;
	struct shown_slice slice = {
		.start_ns = start_ns,
		.stop_ns = stop_ns,
		.thread = thread,
		.what = told->what,
		.cpu = cpu_of(told),
		.kind = told->kind,
		.mode = told->mode,
	};

	if (start_ns >= stop_ns)
		return true;
	if (stop_ns > lane->reached_ns)
		lane->reached_ns = stop_ns;
	return told->kind == SLICE_PROGRAM || append(lane, &slice);
}

/* Cuts off what was shown last where @told begins, which is a part of it. */
static void cut_last(struct lane_maker *lane, const struct timeline_slice *told)
{
	struct shown_slice *last = &lane->slices[lane->count - 1];

	if (told->since_ns <= last->start_ns) {
		lane->reached_ns = last->start_ns;
		lane->count--;
	} else {
		last->stop_ns = lane->reached_ns = told->since_ns;
	}
}

/* Of a wait for a CPU it is told behind it how much of it was throttling. */
static bool is_part_of_last(const struct lane_maker *lane, const struct timeline_slice *told)
{
	return told->kind == STATE_THROTTLED && lane->count && told->since_ns < lane->reached_ns &&
	       told->until_ns >= lane->reached_ns && is_ready(lane->slices[lane->count - 1].kind);
}

/* Says that it is not known what the lane has from where it is up to @until_ns. */
static bool show_lost(struct lane_maker *lane, uint32_t thread, uint8_t kind, uint64_t until_ns,
		      const struct span *window)
{
	struct timeline_slice lost = {
		.since_ns = lane->reached_ns,
		.until_ns = until_ns,
		.kind = kind,
	};

	return show(lane, &lost, thread, lane->reached_ns, window);
}

/* The slices from @told on that are of the same thread and lane. */
static uint64_t length_of_lane(const struct timeline_slice *told, const struct timeline_slice *end)
{
	const struct timeline_slice *next = told;

	while (next < end && next->thread == told->thread &&
	       lane_of(next->kind) == lane_of(told->kind))
		next++;
	return next - told;
}

/*
 * The CPU that a thread is on when the window ends: the one that it waited for last, or if it
 * had one throughout, where it was interrupted; NO_CPU.
 */
static uint16_t last_cpu(const struct timeline_slice *states, uint64_t count,
			 const struct timeline_slice *interrupts, uint64_t interrupt_count)
{
	if (count)
		return is_ready(states[count - 1].kind) ? cpu_of(&states[count - 1]) : NO_CPU;
	return interrupt_count ? cpu_of(&interrupts[interrupt_count - 1]) : NO_CPU;
}

static bool show_states(struct lane_maker *lane, const struct timeline_slice *told, uint64_t count,
			const struct last_slices *last, uint16_t cpu, uint32_t thread,
			const struct span *window)
{
	struct timeline_slice end = {
		.since_ns = last->state_since_ns,
		.until_ns = window->stop_ns,
		.what = last->state_what,
		.kind = last->state,
		.mode = last->mode,
		.number = cpu,
	};
	struct timeline_slice throttled = {
		.since_ns = window->stop_ns - last->throttled_ns,
		.until_ns = window->stop_ns,
		.kind = STATE_THROTTLED,
		.mode = last->mode,
	};

	for (uint64_t i = 0; i < count; i++) {
		if (is_part_of_last(lane, &told[i]))
			cut_last(lane, &told[i]);
		if (told[i].since_ns > lane->reached_ns &&
		    !show_lost(lane, thread, SLICE_LOST_STATES, told[i].since_ns, window))
			return false;
		if (!show(lane, &told[i], thread, lane->reached_ns, window))
			return false;
	}
	if (lane->reached_ns >= window->stop_ns)
		return true;
	if (end.since_ns > lane->reached_ns &&
	    !show_lost(lane, thread, SLICE_LOST_STATES, end.since_ns, window))
		return false;
	if (!show(lane, &end, thread, lane->reached_ns, window))
		return false;
	if (last->throttled_ns && is_part_of_last(lane, &throttled))
		cut_last(lane, &throttled);
	return show(lane, &throttled, thread, lane->reached_ns, window);
}

/* @lost: some modes were, so that there may be more before the first and behind the last. */
static bool show_modes(struct lane_maker *lane, const struct timeline_slice *told, uint64_t count,
		       const struct last_slices *last, uint32_t thread, bool lost,
		       const struct span *window)
{
	struct timeline_slice end = {
		.since_ns = last->mode_since_ns,
		.until_ns = window->stop_ns,
		.what = last->mode_what,
		.kind = last->mode_kind,
		.mode = last->mode,
	};

	for (uint64_t i = 0; i < count; i++) {
		bool follows = i ? told[i].order == (uint16_t)(told[i - 1].order + 1) : !lost;

		if (!follows && told[i].since_ns > lane->reached_ns &&
		    !show_lost(lane, thread, SLICE_LOST_MODES, told[i].since_ns, window))
			return false;
		if (!show(lane, &told[i], thread, lane->reached_ns, window))
			return false;
	}
	if (lost && end.since_ns > lane->reached_ns &&
	    !show_lost(lane, thread, SLICE_LOST_MODES, end.since_ns, window))
		return false;
	return show(lane, &end, thread, lane->reached_ns, window);
}

static bool show_interrupts(struct lane_maker *lane, const struct timeline_slice *told,
			    uint64_t count, uint32_t thread, const struct span *window)
{
	for (uint64_t i = 0; i < count; i++) {
		if (!show(lane, &told[i], thread, window->start_ns, window))
			return false;
	}
	return true;
}

static bool comes_first(const struct shown_slice *one, const struct shown_slice *other)
{
	if (one->start_ns != other->start_ns)
		return one->start_ns < other->start_ns;
	return one->stop_ns > other->stop_ns;
}

/* Appends the slices of all lanes by time: at once, what lasts longer first, then modes. */
static bool merge(struct lane_maker *shown, const struct lane_maker *lanes)
{
	static const enum lane in_turn[LANES] = {MODES, STATES, INTERRUPTS};
	uint64_t next[LANES] = {};

	while (true) {
		const struct shown_slice *first = NULL;
		enum lane from = MODES;

		for (int i = 0; i < LANES; i++) {
			enum lane lane = in_turn[i];
			const struct shown_slice *slice = &lanes[lane].slices[next[lane]];

			if (next[lane] < lanes[lane].count &&
			    (!first || comes_first(slice, first))) {
				first = slice;
				from = lane;
			}
		}
		if (!first)
			return true;
		next[from]++;
		if (!append(shown, first))
			return false;
	}
}

static bool show_thread(struct lane_maker *shown, struct lane_maker *lanes,
			const struct timeline_slice *told, uint64_t count,
			const struct last_slices *last, uint32_t thread, bool lost_modes,
			const struct span *window)
{
	const struct timeline_slice *end = told + count, *of_lane[LANES] = {};
	uint64_t lengths[LANES] = {};
	uint16_t cpu;

	while (told < end) {
		enum lane lane = lane_of(told->kind);

		of_lane[lane] = told;
		lengths[lane] = length_of_lane(told, end);
		told += lengths[lane];
	}
	for (int lane = 0; lane < LANES; lane++) {
		lanes[lane].count = 0;
		lanes[lane].reached_ns = window->start_ns;
	}
	cpu = last_cpu(of_lane[STATES], lengths[STATES], of_lane[INTERRUPTS], lengths[INTERRUPTS]);
	return show_states(&lanes[STATES], of_lane[STATES], lengths[STATES], last, cpu, thread,
			   window) &&
	       show_modes(&lanes[MODES], of_lane[MODES], lengths[MODES], last, thread, lost_modes,
			  window) &&
	       show_interrupts(&lanes[INTERRUPTS], of_lane[INTERRUPTS], lengths[INTERRUPTS], thread,
			       window) &&
	       merge(shown, lanes);
}

/* Of threads that are not asked for there is nothing to show. */
static uint64_t pass_over(const struct timeline_slice *told, uint64_t count, uint32_t thread,
			  struct taken_timeline *taken)
{
	uint64_t passed = 0;

	while (passed < count && told[passed].thread < thread)
		taken->lost[class_of(told[passed++].kind)]++;
	return passed;
}

static uint64_t slices_of(const struct timeline_slice *told, uint64_t count, uint32_t thread)
{
	uint64_t found = 0;

	while (found < count && told[found].thread == thread)
		found++;
	return found;
}

bool show_slices(struct kept_slices *kept, uint64_t start_ns, uint64_t stop_ns,
		 const struct last_slices *threads, uint32_t count, struct taken_timeline *taken)
{
	struct span window = {start_ns, stop_ns};
	struct lane_maker shown = {}, lanes[LANES] = {};
	bool lost_modes = taken->lost[SLICE_OF_MODE], done = true;
	uint64_t at = 0;

	qsort(kept->slices, kept->count, sizeof(*kept->slices), by_lane);
	for (uint32_t i = 0; i < count && done; i++) {
		const struct timeline_slice *told;
		uint64_t of_thread;

		at += pass_over(kept->slices + at, kept->count - at, threads[i].thread, taken);
		told = kept->slices + at;
		of_thread = slices_of(told, kept->count - at, threads[i].thread);
		done = show_thread(&shown, lanes, told, of_thread, &threads[i], i, lost_modes,
				   &window);
		at += of_thread;
	}
	pass_over(kept->slices + at, kept->count - at, -1, taken);
	for (int lane = 0; lane < LANES; lane++)
		free(lanes[lane].slices);
	taken->slices = shown.slices;
	taken->count = shown.count;
	return done;
}
