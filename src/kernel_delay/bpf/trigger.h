/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Windows that events open and close. A hit's own clock is the window's boundary,
 * so that all is counted against it, whenever user space gets to know.
 *
 * Hits may come at the same time on several CPUs, and a program in the midst
 * of one may be preempted, so nothing here waits for another program. A window
 * has a free slot, both boundaries at NEVER_NS, until one hit takes its start_ns,
 * and is open until one hit takes its stop_ns; a hit that finds the one done
 * and control.epoch not yet moved on moves it on itself. A slot is free again
 * only when every program that may have seen the window before it has ended
 * (see wait_for_programs() in loader/records_shim.c), so that no late hit can
 * take another window for its own.
 */
#ifndef KERNEL_DELAY_TRIGGER_H
#define KERNEL_DELAY_TRIGGER_H

#include "round.h"
#include "thread.h"

static __always_inline struct window *window_of(__u64 epoch)
{
	return &control.windows[epoch & (WINDOWS - 1)];
}

/* The slot of the window after @epoch, or NULL if it still holds one that is not read. */
static __always_inline struct window *window_after(__u64 epoch)
{
	if (epoch + 1 - *(volatile __u64 *)&control.windows_kept >= WINDOWS)
		return NULL;
	return window_of(epoch + 1);
}

/* @boundary, if it is not NEVER_NS, and else @now_ns, which it then is. */
static __always_inline __u64 take_boundary(__u64 *boundary, __u64 now_ns)
{
	return __sync_val_compare_and_swap(boundary, NEVER_NS, now_ns);
}

static __always_inline __u64 read_boundary(const __u64 *boundary)
{
	return *(const volatile __u64 *)boundary;
}

static __always_inline bool enough_windows(void)
{
	return *(volatile __u64 *)&control.windows_done >= options.window_count;
}

static __always_inline void note_hit(struct trigger_hit *hit)
{
	hit->task = bpf_get_current_task();
	hit->tid = thread_id(bpf_get_current_task_btf());
	bpf_get_current_comm(hit->comm, sizeof(hit->comm));
}

/* Says that @window is over. The caller took its stop_ns. */
static __always_inline void end_window(const struct window *window, __u64 stop_ns)
{
	if (stop_ns - window->start_ns >= options.shortest_ns)
		count_up(&control.windows_done);
	notify();
}

/*
 * Makes @next, which has its start, the newest window; also for another hit
 * that took the start. The boundaries are there before the epoch is.
 */
static __always_inline void publish(struct window *next, __u64 epoch)
{
	if (!(options.trigger_options & TRIGGER_STOP))
		take_boundary(&next->stop_ns, read_boundary(&next->start_ns) + options.window_ns);
	__sync_val_compare_and_swap(&control.epoch, epoch, epoch + 1);
}

/* The newest window's epoch, also if its opener did not yet come to say so. */
static __always_inline __u64 newest_epoch(void)
{
	__u64 epoch = *(volatile __u64 *)&control.epoch;
	struct window *next = window_after(epoch);

	if (!next || read_boundary(&next->start_ns) == NEVER_NS)
		return epoch;
	publish(next, epoch);
	return epoch + 1;
}

static __noinline void hit_start(__u64 now_ns)
{
	__u64 epoch = newest_epoch();
	struct window *next;
	__u64 last_stop_ns;

	if (enough_windows())
		return;
	if (epoch) {
		last_stop_ns = read_boundary(&window_of(epoch)->stop_ns);
		if (now_ns < last_stop_ns || now_ns - last_stop_ns < options.interval_ns)
			return;
	}
	next = window_after(epoch);
	if (!next) {
		count_up(&control.missed_hits);
		return;
	}
	if (take_boundary(&next->start_ns, now_ns) != NEVER_NS)
		return;
	note_hit(&next->start_hit);
	if (!(options.trigger_options & TRIGGER_STOP))
		count_up(&control.windows_done);
	publish(next, epoch);
	notify();
}

static __always_inline bool is_open(const struct window *window)
{
	return read_boundary(&window->stop_ns) == NEVER_NS &&
	       read_boundary(&window->start_ns) != NEVER_NS;
}

/* Closes the open window, if @now_ns is in it and this thread may. */
static __noinline void hit_stop(__u64 now_ns)
{
	struct window *window = window_of(newest_epoch());

	if (!is_open(window) || now_ns <= read_boundary(&window->start_ns))
		return;
	if (options.trigger_options & TRIGGER_SAME_THREAD &&
	    window->start_hit.task != bpf_get_current_task())
		return;
	if (take_boundary(&window->stop_ns, now_ns) != NEVER_NS)
		return;
	note_hit(&window->stop_hit);
	end_window(window, now_ns);
}

/*
 * Ends the newest window and starts the next at one time: the one who takes
 * the next one's start has closed this one too. False if another hit was
 * faster, so that this one may be the boundary after that. Not static, as take_record(): Linux
 * 5.14 and 5.15 take the loop around it for endless if the number of tries is on the stack.
 */
__noinline bool pass_boundary(__u64 now_ns)
{
	__u64 epoch = newest_epoch(), start_ns, stop_ns;
	struct window *window = window_of(epoch);
	struct window *next = window_after(epoch);

	stop_ns = read_boundary(&window->stop_ns);
	if (epoch && (now_ns <= read_boundary(&window->start_ns) ||
		      (stop_ns != NEVER_NS && now_ns < stop_ns)))
		return true;
	if (!next || enough_windows()) {
		hit_stop(now_ns);
		hit_start(now_ns);
		return true;
	}
	start_ns = take_boundary(&next->start_ns, now_ns);
	if (start_ns == NEVER_NS) {
		note_hit(&next->start_hit);
		if (stop_ns == NEVER_NS)
			note_hit(&window->stop_hit);
	}
	stop_ns = start_ns == NEVER_NS ? now_ns : start_ns;
	if (epoch && take_boundary(&window->stop_ns, stop_ns) == NEVER_NS)
		end_window(window, stop_ns);
	publish(next, epoch);
	return start_ns == NEVER_NS;
}

/* The same trigger for both boundaries: one window ends where the next one starts. */
static __noinline void hit_both(__u64 now_ns)
{
	int tries;

	if (options.interval_ns || options.trigger_options & TRIGGER_SAME_THREAD) {
		hit_stop(now_ns);
		hit_start(now_ns);
		return;
	}
	for (tries = 0; tries < 4; tries++)
		if (pass_boundary(now_ns))
			return;
	count_up(&control.missed_hits);
}

/*
 * Only where this opens the window: the new program's first instruction is next. @task is
 * what calls execve(2).
 */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(on_sched_process_exec, struct task_struct *task)
{
	if (is_target(task))
		hit_start(bpf_ktime_get_ns());
	return 0;
}

/*
 * Triggers. User space loads and attaches the ones that it is asked for, to
 * any number of places: a USDT probe may be in the code more than once. Those
 * in user code count only in the target, those in the kernel in any context.
 */
#define ON_HIT(section, kind, boundary, counts)                                                    \
	SEC("?" section)                                                                           \
	int on_##boundary##_##kind(void *ctx)                                                      \
	{                                                                                          \
		if (counts)                                                                        \
			hit_##boundary(bpf_ktime_get_ns());                                        \
		return 0;                                                                          \
	}

#define ON_HITS(section, kind, counts)                                                             \
	ON_HIT(section, kind, start, counts)                                                       \
	ON_HIT(section, kind, stop, counts)                                                        \
	ON_HIT(section, kind, both, counts)

ON_HITS("kprobe", uprobe, is_target(bpf_get_current_task_btf()))
ON_HITS("kprobe", kprobe, true)
ON_HITS("tracepoint", tracepoint, true)

/* With rounds they are in user code, and begin and end those of the thread that hits them. */
#define ON_ROUND(boundary, ends, begins)                                                           \
	SEC("?kprobe")                                                                             \
	int on_##boundary##_round(void *ctx)                                                       \
	{                                                                                          \
		if (is_target(bpf_get_current_task_btf()))                                         \
			pass_round(bpf_ktime_get_ns(), ends, begins);                              \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("?kprobe")                                                                             \
	int on_##boundary##_round_preemptible(void *ctx)                                           \
	{                                                                                          \
		if (!is_target(bpf_get_current_task_btf()))                                        \
			return 0;                                                                  \
		stay_on_cpu();                                                                     \
		pass_round(bpf_ktime_get_ns(), ends, begins);                                      \
		end_stay_on_cpu();                                                                 \
		return 0;                                                                          \
	}

ON_ROUND(start, false, true)
ON_ROUND(stop, true, false)
ON_ROUND(both, true, true)

#endif
