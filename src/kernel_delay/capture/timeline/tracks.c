// SPDX-License-Identifier: Apache-2.0
/*
 * A thread has three tracks: its states follow one another without a gap, so that a gap is what
 * is missing; its modes do with their order; and interrupts come whenever they do.
 */
#include "tracks.h"

#include <stdlib.h>

enum track { STATES, MODES, INTERRUPTS, TRACKS };

static enum track track_of(uint8_t kind)
{
	static const enum track tracks[SLICE_CLASSES] = {
		[SLICE_OF_INTERRUPT] = INTERRUPTS,
		[SLICE_OF_STATE] = STATES,
		[SLICE_OF_MODE] = MODES,
	};

	return tracks[class_of(kind)];
}

static int compare(uint64_t one, uint64_t other)
{
	return (one > other) - (one < other);
}

static int by_track(const void *left, const void *right)
{
	const struct timeline_slice *one = left, *other = right;
	int order = compare(one->thread, other->thread);

	if (!order)
		order = compare(track_of(one->kind), track_of(other->kind));
	if (!order)
		order = compare(one->since_ns, other->since_ns);
	/* What holds another comes first. */
	return order ? order : compare(other->until_ns, one->until_ns);
}

/* A track as it is made, and how far it goes. */
struct track_maker {
	struct shown_slice *slices;
	uint64_t count;
	uint64_t room;
	uint64_t reached_ns;
};

struct span {
	uint64_t start_ns;
	uint64_t stop_ns;
};

static bool append(struct track_maker *track, const struct shown_slice *slice)
{
	if (track->count == track->room) {
		uint64_t room = track->room ? 2 * track->room : 256;
		struct shown_slice *slices = realloc(track->slices, room * sizeof(*slices));

		if (!slices)
			return false;
		track->slices = slices;
		track->room = room;
	}
	track->slices[track->count++] = *slice;
	return true;
}

static bool is_ready(uint8_t kind)
{
	return kind == STATE_READY_WOKEN || kind == STATE_READY_PREEMPTED;
}

static uint16_t cpu_of(const struct timeline_slice *reported)
{
	switch (reported->kind) {
	case STATE_RUNNING:
	case STATE_GUEST:
	case SLICE_HARD_IRQ:
	case SLICE_SOFT_IRQ:
		return reported->number;
	case STATE_READY_WOKEN:
	case STATE_READY_PREEMPTED:
		return reported->what ? reported->what - 1 : NO_CPU;
	default:
		return NO_CPU;
	}
}

/* Appends what of @reported lies in the window, from @from_ns on. */
static bool show(struct track_maker *track, const struct timeline_slice *reported, uint32_t thread,
		 uint64_t from_ns, const struct span *window)
{
	uint64_t start_ns = reported->since_ns > from_ns ? reported->since_ns : from_ns;
	uint64_t stop_ns =
		reported->until_ns < window->stop_ns ? reported->until_ns : window->stop_ns;
	struct shown_slice slice = {
		.start_ns = start_ns,
		.stop_ns = stop_ns,
		.thread = thread,
		.what = reported->what,
		.cpu = cpu_of(reported),
		.kind = reported->kind,
		.mode = reported->mode,
	};

	if (start_ns >= stop_ns)
		return true;
	if (stop_ns > track->reached_ns)
		track->reached_ns = stop_ns;
	return reported->kind == SLICE_PROGRAM || append(track, &slice);
}

/* Cuts off what was shown last where @reported begins, which is a part of it. */
static void cut_last(struct track_maker *track, const struct timeline_slice *reported)
{
	struct shown_slice *last = &track->slices[track->count - 1];

	if (reported->since_ns <= last->start_ns) {
		track->reached_ns = last->start_ns;
		track->count--;
	} else {
		last->stop_ns = track->reached_ns = reported->since_ns;
	}
}

/* How much of a wait for a CPU was throttling is reported behind it. */
static bool is_part_of_last(const struct track_maker *track, const struct timeline_slice *reported)
{
	return reported->kind == STATE_THROTTLED && track->count &&
	       reported->since_ns < track->reached_ns && reported->until_ns >= track->reached_ns &&
	       is_ready(track->slices[track->count - 1].kind);
}

/* Says that it is not known what the track has from where it is up to @until_ns. */
static bool show_lost(struct track_maker *track, uint32_t thread, uint8_t kind, uint64_t until_ns,
		      const struct span *window)
{
	struct timeline_slice lost = {
		.since_ns = track->reached_ns,
		.until_ns = until_ns,
		.kind = kind,
	};

	return show(track, &lost, thread, track->reached_ns, window);
}

/* The slices from @reported on that are of the same thread and track. */
static uint64_t length_of_track(const struct timeline_slice *reported,
				const struct timeline_slice *end)
{
	const struct timeline_slice *next = reported;

	while (next < end && next->thread == reported->thread &&
	       track_of(next->kind) == track_of(reported->kind))
		next++;
	return next - reported;
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

/* Of a thread that slept when the window ended: since when it was frozen, and was it before? */
static bool show_frozen(struct track_maker *track, const struct last_slices *last, uint32_t thread,
			const struct span *window)
{
	struct timeline_slice unknown = {
		.since_ns = last->blocked_until_ns,
		.until_ns = last->frozen_since_ns,
		.kind = STATE_UNKNOWN,
		.mode = last->mode,
	};
	struct timeline_slice frozen = {
		.since_ns = last->frozen_since_ns,
		.until_ns = window->stop_ns,
		.kind = STATE_FROZEN,
		.mode = last->mode,
	};

	return !last->frozen_since_ns ||
	       (show(track, &unknown, thread, track->reached_ns, window) &&
		show(track, &frozen, thread, track->reached_ns, window));
}

static bool show_states(struct track_maker *track, const struct timeline_slice *reported,
			uint64_t count, const struct last_slices *last, uint16_t cpu,
			uint32_t thread, const struct span *window)
{
	struct timeline_slice end = {
		.since_ns = last->state_since_ns,
		.until_ns = last->frozen_since_ns ? last->blocked_until_ns : window->stop_ns,
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
		if (is_part_of_last(track, &reported[i]))
			cut_last(track, &reported[i]);
		if (reported[i].since_ns > track->reached_ns &&
		    !show_lost(track, thread, SLICE_LOST_STATES, reported[i].since_ns, window))
			return false;
		if (!show(track, &reported[i], thread, track->reached_ns, window))
			return false;
	}
	if (track->reached_ns >= window->stop_ns)
		return true;
	if (end.since_ns > track->reached_ns &&
	    !show_lost(track, thread, SLICE_LOST_STATES, end.since_ns, window))
		return false;
	if (!show(track, &end, thread, track->reached_ns, window))
		return false;
	if (last->throttled_ns && is_part_of_last(track, &throttled))
		cut_last(track, &throttled);
	return show(track, &throttled, thread, track->reached_ns, window) &&
	       show_frozen(track, last, thread, window);
}

/* @lost: some modes were, so that there may be more before the first and behind the last. */
static bool show_modes(struct track_maker *track, const struct timeline_slice *reported,
		       uint64_t count, const struct last_slices *last, uint32_t thread, bool lost,
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
		bool follows =
			i ? reported[i].order == (uint16_t)(reported[i - 1].order + 1) : !lost;

		if (!follows && reported[i].since_ns > track->reached_ns &&
		    !show_lost(track, thread, SLICE_LOST_MODES, reported[i].since_ns, window))
			return false;
		if (!show(track, &reported[i], thread, track->reached_ns, window))
			return false;
	}
	if (lost && end.since_ns > track->reached_ns &&
	    !show_lost(track, thread, SLICE_LOST_MODES, end.since_ns, window))
		return false;
	return show(track, &end, thread, track->reached_ns, window);
}

static bool show_interrupts(struct track_maker *track, const struct timeline_slice *reported,
			    uint64_t count, uint32_t thread, const struct span *window)
{
	for (uint64_t i = 0; i < count; i++) {
		if (!show(track, &reported[i], thread, window->start_ns, window))
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

/* Appends the slices of all tracks by time: at once, what lasts longer first, then modes. */
static bool merge(struct track_maker *shown, const struct track_maker *tracks)
{
	static const enum track in_turn[TRACKS] = {MODES, STATES, INTERRUPTS};
	uint64_t next[TRACKS] = {};

	while (true) {
		const struct shown_slice *first = NULL;
		enum track from = MODES;

		for (int i = 0; i < TRACKS; i++) {
			enum track track = in_turn[i];
			const struct shown_slice *slice = &tracks[track].slices[next[track]];

			if (next[track] < tracks[track].count &&
			    (!first || comes_first(slice, first))) {
				first = slice;
				from = track;
			}
		}
		if (!first)
			return true;
		next[from]++;
		if (!append(shown, first))
			return false;
	}
}

static bool show_thread(struct track_maker *shown, struct track_maker *tracks,
			const struct timeline_slice *reported, uint64_t count,
			const struct last_slices *last, uint32_t thread, bool lost_modes,
			const struct span *window)
{
	const struct timeline_slice *end = reported + count, *of_track[TRACKS] = {};
	uint64_t lengths[TRACKS] = {};
	uint16_t cpu;

	while (reported < end) {
		enum track track = track_of(reported->kind);

		of_track[track] = reported;
		lengths[track] = length_of_track(reported, end);
		reported += lengths[track];
	}
	for (int track = 0; track < TRACKS; track++) {
		tracks[track].count = 0;
		tracks[track].reached_ns = window->start_ns;
	}
	cpu = last_cpu(of_track[STATES], lengths[STATES], of_track[INTERRUPTS],
		       lengths[INTERRUPTS]);
	return show_states(&tracks[STATES], of_track[STATES], lengths[STATES], last, cpu, thread,
			   window) &&
	       show_modes(&tracks[MODES], of_track[MODES], lengths[MODES], last, thread, lost_modes,
			  window) &&
	       show_interrupts(&tracks[INTERRUPTS], of_track[INTERRUPTS], lengths[INTERRUPTS],
			       thread, window) &&
	       merge(shown, tracks);
}

/* A thread that starts after the window is reported as not alive until then. */
static bool is_shown(const struct timeline_slice *reported, const struct span *window)
{
	return reported->kind != STATE_NOT_ALIVE && reported->kind != SLICE_PROGRAM &&
	       reported->since_ns < window->stop_ns && reported->until_ns > window->start_ns;
}

/* Of threads that are not asked for there is nothing to show: what they did there is lost. */
static uint64_t pass_over(const struct timeline_slice *reported, uint64_t count, uint32_t thread,
			  const struct span *window, struct taken_timeline *taken)
{
	uint64_t passed = 0;

	for (; passed < count && reported[passed].thread < thread; passed++) {
		if (is_shown(&reported[passed], window))
			taken->lost[class_of(reported[passed].kind)]++;
	}
	return passed;
}

static uint64_t slices_of(const struct timeline_slice *reported, uint64_t count, uint32_t thread)
{
	uint64_t found = 0;

	while (found < count && reported[found].thread == thread)
		found++;
	return found;
}

bool show_slices(struct kept_slices *kept, uint64_t start_ns, uint64_t stop_ns,
		 const struct last_slices *threads, uint32_t count, struct taken_timeline *taken)
{
	struct span window = {start_ns, stop_ns};
	struct track_maker shown = {}, tracks[TRACKS] = {};
	bool lost_modes = taken->lost[SLICE_OF_MODE], done = true;
	uint64_t at = 0;

	qsort(kept->slices, kept->count, sizeof(*kept->slices), by_track);
	for (uint32_t i = 0; i < count && done; i++) {
		const struct timeline_slice *reported;
		uint64_t of_thread;

		at += pass_over(kept->slices + at, kept->count - at, threads[i].thread, &window,
				taken);
		reported = kept->slices + at;
		of_thread = slices_of(reported, kept->count - at, threads[i].thread);
		done = show_thread(&shown, tracks, reported, of_thread, &threads[i], i, lost_modes,
				   &window);
		at += of_thread;
	}
	pass_over(kept->slices + at, kept->count - at, -1, &window, taken);
	for (int track = 0; track < TRACKS; track++)
		free(tracks[track].slices);
	taken->slices = shown.slices;
	taken->count = shown.count;
	return done;
}
