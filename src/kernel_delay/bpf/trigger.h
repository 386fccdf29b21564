/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Windows that events open and close. A hit's own clock is the window's edge,
 * so that all is counted against it, whenever user space gets to know.
 *
 * Hits may come at the same moment on several CPUs: of starts the first one to
 * take control.opening opens the window, of stops the first one to replace
 * stop_ns closes it, and a stop that is not later than the start is none.
 */
#ifndef KERNEL_DELAY_TRIGGER_H
#define KERNEL_DELAY_TRIGGER_H

#include "thread.h"

#define NEVER_NS ((__u64)-1)

/* Wakes user space, which finds what happened in struct control. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} notices SEC(".maps");

static __always_inline void notify(void)
{
	__u64 notice = 0;

	/* If it is full, user space has not yet read that it is to look. */
	bpf_ringbuf_output(&notices, &notice, sizeof(notice), 0);
}

static __always_inline struct window *window_of(__u64 epoch)
{
	return &control.windows[epoch & (WINDOWS - 1)];
}

static __always_inline void note_hit(struct trigger_hit *hit)
{
	hit->tid = thread_id(bpf_get_current_task_btf());
	bpf_get_current_comm(hit->comm, sizeof(hit->comm));
}

/* Opens the next window at @now_ns. The caller holds control.opening. */
static __always_inline void open_window(__u64 now_ns)
{
	__u64 epoch = control.epoch + 1;
	struct window *window = window_of(epoch);

	if (epoch - *(volatile __u64 *)&control.windows_read >= WINDOWS) {
		count_up(&control.missed_hits);
		return;
	}
	window->start_ns = now_ns;
	window->stop_ns =
		options.trigger_options & TRIGGER_STOP ? NEVER_NS : now_ns + options.window_ns;
	note_hit(&window->start_hit);
	if (!(options.trigger_options & TRIGGER_STOP))
		count_up(&control.windows_done);
	/* An exchange, for its barrier: the edges are there before the epoch is. */
	__sync_lock_test_and_set(&control.epoch, epoch);
	notify();
}

static __always_inline bool may_open(__u64 now_ns)
{
	__u64 last_stop_ns;

	if (control.windows_done >= options.window_count)
		return false;
	if (!control.epoch)
		return true;
	last_stop_ns = *(volatile __u64 *)&window_of(control.epoch)->stop_ns;
	return now_ns >= last_stop_ns && now_ns - last_stop_ns >= options.interval_ns;
}

static __noinline void hit_start(__u64 now_ns)
{
	if (!may_open(now_ns))
		return;
	if (__sync_val_compare_and_swap(&control.opening, 0, 1))
		return;
	/* Another CPU may have opened one since the test. */
	if (may_open(now_ns))
		open_window(now_ns);
	__sync_lock_test_and_set(&control.opening, 0);
}

/* Closes the open window, if @now_ns is in it. */
static __noinline void hit_stop(__u64 now_ns)
{
	struct window *window = window_of(control.epoch);

	if (*(volatile __u64 *)&window->stop_ns != NEVER_NS || now_ns <= window->start_ns ||
	    window->start_ns == NEVER_NS)
		return;
	if (options.trigger_options & TRIGGER_SAME_THREAD && window->start_hit.tid &&
	    window->start_hit.tid != thread_id(bpf_get_current_task_btf()))
		return;
	if (__sync_val_compare_and_swap(&window->stop_ns, NEVER_NS, now_ns) != NEVER_NS)
		return;
	note_hit(&window->stop_hit);
	if (now_ns - window->start_ns >= options.shortest_ns)
		count_up(&control.windows_done);
	notify();
}

/* The same trigger for both edges: one window ends where the next one starts. */
static __always_inline void hit_both(__u64 now_ns)
{
	hit_stop(now_ns);
	hit_start(now_ns);
}

#endif
