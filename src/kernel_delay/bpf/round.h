/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Rounds: each thread's way from a poll's return to its next poll, or from one trigger to
 * the other. With options.rounds they are a thread's own windows, and the thread's records
 * are those of its round.
 *
 * The records of a round that was short are used for the next one. They are not cleared
 * for that: the thread's record gets another number, by which all others that are of it
 * are known to be of an earlier round, and each is cleared when it is needed again. Those of
 * a long round are left to user space, which gives their slots back.
 */
#ifndef KERNEL_DELAY_ROUND_H
#define KERNEL_DELAY_ROUND_H

#include "accounting.h"
#include "run_queue.h"
#include "thread_record.h"
#include "waited_for.h"

/* To make a poll again is no work, however low the threshold. */
#define SHORTEST_WORK_NS 1000000

/* How many rounds of all threads are reported in a gap, however long they are. */
#define ROUNDS_IN_GAP 8

/* User space reads these, and sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} round_notices SEC(".maps");

/* include/linux/errno.h, 5.14 to 6.18: what a call returns that a signal interrupted. */
#define EINTR 4
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516

static __always_inline bool was_interrupted(long value)
{
	return value == -EINTR || (value <= -ERESTARTSYS && value >= -ERESTART_RESTARTBLOCK);
}

/* include/uapi/linux/io_uring.h */
#define IORING_ENTER_GETEVENTS 1

/* Does io_uring_enter(2) wait? */
static __always_inline bool ring_waits(struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;
	__u64 least, flags;

#if defined(__TARGET_ARCH_x86)
	least = call->dx;
	flags = call->r10;
#elif defined(__TARGET_ARCH_arm64)
	least = call->regs[2];
	flags = call->regs[3];
#endif
	return least && flags & IORING_ENTER_GETEVENTS;
}

static __always_inline void note_lengths(struct round_notice *notice, const struct thread *thread)
{
	notice->longest_ns = thread->longest_round_ns;
	/* No loop, and no memcpy(): the verifier would follow each word. */
	bpf_probe_read_kernel(notice->lengths, sizeof(notice->lengths), thread->round_lengths);
}

/* Half of the buffer is for rounds alone: whole crowds of threads may end at once. */
static __always_inline bool is_room_for(__u64 kind)
{
	return kind != ROUND_THREAD_ENDED ||
	       bpf_ringbuf_query(&round_notices, BPF_RB_AVAIL_DATA) <
		       bpf_ringbuf_query(&round_notices, BPF_RB_RING_SIZE) / 2;
}

/*
 * Leaves the thread's records to user space, and says so. False if that does not hear of it.
 * Not static, so that it is verified once, by itself.
 */
__noinline bool report_round(struct thread *thread, __u64 kind)
{
	struct round_notice *notice = NULL;
	struct task_struct *task;

	if (!options.rounds || !thread)
		return false;
	task = (void *)thread->task;
	if (is_room_for(kind))
		notice = bpf_ringbuf_reserve(&round_notices, sizeof(*notice), 0);
	if (!notice) {
		count_up(kind == ROUND_THREAD_ENDED ? &control.missed_ends
						    : &control.missed_rounds);
		return false;
	}
	notice->kind = kind;
	notice->identity = thread->identity;
	notice->record = thread->record;
	notice->round = thread->round;
	notice->start_ns = thread->round_start_ns;
	notice->stop_ns = thread->round_stop_ns;
	notice->timeline = thread->timeline;
	notice->running_since_ns = thread->since_ns;
	notice->begun = thread->round_times;
	__builtin_memset(&notice->ended, 0, sizeof(notice->ended));
	if (kind != ROUND_IS_OFF_CPU)
		note_own_times(&notice->ended, thread);
	notice->suppressed = *(volatile __u64 *)&control.suppressed_rounds;
	notice->unsplit_ns = options.polls_only ? thread->unsplit_ns : 0;
	notice->tid = thread->tid;
	notice->unused = 0;
	bpf_probe_read_kernel(notice->comm, sizeof(notice->comm), task->comm);
	note_lengths(notice, thread);
	thread->record = 0;
	thread->timeline = 0;
	bpf_ringbuf_submit(notice, 0);
	return true;
}

/*
 * Is a round of that length to be reported? For a while after one that was, only longer ones of the
 * same thread are; and of all threads, ROUNDS_IN_GAP and then only longer ones. A storm of long
 * rounds is to be no storm of records.
 */
static __always_inline bool is_to_be_reported(struct thread *thread, __u64 now_ns)
{
	bool is_new = length_since(now_ns, thread->round_reported_ns) >= options.round_gap_ns;
	/* Anew, as the verifier would follow each range that its caller's may be in. */
	__u64 length_ns = length_since(now_ns, *(volatile __u64 *)&thread->round_start_ns);

	if (length_since(now_ns, control.round_gap_ns) >= options.round_gap_ns) {
		control.round_gap_ns = now_ns;
		control.round_gap_longest_ns = 0;
		control.rounds_in_gap = 0;
	}
	if ((!is_new && length_ns <= thread->round_reported_length_ns) ||
	    (control.rounds_in_gap >= ROUNDS_IN_GAP && length_ns <= control.round_gap_longest_ns)) {
		count_up(&control.suppressed_rounds);
		return false;
	}
	thread->round_reported_ns = now_ns;
	thread->round_reported_length_ns = length_ns;
	if (length_ns > control.round_gap_longest_ns)
		control.round_gap_longest_ns = length_ns;
	count_up(&control.rounds_in_gap);
	return true;
}

/*
 * Counts the thread's round, which is over; off the CPU if @kind says so. Is it to be reported, as
 * it is no shorter than @least_ns?
 */
static __always_inline bool count_round(struct thread *thread, const struct timestamp *timestamp,
					__u64 kind, __u64 least_ns)
{
	__u64 is_of_polls = ~mask_if_same(kind, ROUND_IS_OFF_CPU);
	__u64 length_ns = length_since(timestamp->now_ns, thread->round_start_ns);
	__u32 bucket = log2_of(length_ns);

	barrier_var(bucket);
	thread->round_lengths[bucket & (HISTOGRAM_BUCKETS - 1)]++;
	if (options.totals) {
		thread->totals.round_lengths[bucket & (HISTOGRAM_BUCKETS - 1)] += is_of_polls & 1;
		thread->totals.round_ns += length_ns & is_of_polls;
	}
	if (length_ns > thread->longest_round_ns)
		thread->longest_round_ns = length_ns;
	if (length_ns < least_ns)
		return false;
	count_up(&control.long_rounds);
	return is_to_be_reported(thread, timestamp->now_ns);
}

/*
 * How long @task ran, as of its last tick or switch, or waited for a CPU, by the scheduler's count.
 * Who waits for one is kept from its poll as much.
 */
static __always_inline __u64 counted_ns_of(const struct task_struct *task)
{
	__u64 ns = task->se.sum_exec_runtime;

	if (bpf_core_field_exists(task->sched_info.run_delay))
		ns += task->sched_info.run_delay;
	return ns;
}

/* The same of the current one. */
static __always_inline __u64 counted_ns(void)
{
	return counted_ns_of(bpf_get_current_task_btf());
}

/*
 * Was the current thread, which called nothing since, kept from making its poll again? Where it
 * was stopped before a handler ran that was within its poll, which the kernel makes again. The
 * end of a handler is in the program: from then on all time counts.
 */
static __always_inline bool has_worked(const struct thread *thread, __u64 now_ns)
{
	__u64 least_ns = options.round_ns;

	if (least_ns < SHORTEST_WORK_NS)
		least_ns = SHORTEST_WORK_NS;
	if (counted_ns() - thread->retry_ran_ns >= least_ns)
		return true;
	return thread->handler_end_ns && length_since(now_ns, thread->handler_end_ns) >= least_ns;
}

/* An interrupt just then has the clock read again: that often, as the verifier wants an end. */
#define MOST_READS 4

/*
 * When the current thread's round ends, if one is open: now. What ends it takes as long as a short
 * interrupt. One that comes meanwhile is not of the round, which it does not know to be over; one
 * that was charged to the round lies before its end.
 */
static __always_inline __u64 round_end_ns(struct thread *thread)
{
	__u64 now_ns = 0;

	for (int i = 0; i < MOST_READS; i++) {
		*(volatile __u64 *)&thread->round_ends_ns = NEVER_NS;
		*(volatile __u32 *)&thread->is_interrupted = 0;
		now_ns = bpf_ktime_get_ns();
		*(volatile __u64 *)&thread->round_ends_ns = now_ns;
		if (!*(volatile __u32 *)&thread->is_interrupted)
			break;
	}
	return now_ns;
}

/*
 * Ends the thread's round, if one is open. One no shorter than @least_ns is long: @kind is what its
 * notice reports. Not static, as above.
 */
__noinline int end_round(struct thread *thread, const struct timestamp *timestamp, __u64 kind,
			 __u64 least_ns)
{
	if (!options.rounds || !thread || !timestamp || thread->round_stop_ns != NEVER_NS)
		return 0;
	thread->round_stop_ns = timestamp->now_ns;
	if (thread->round_is_retry && !has_worked(thread, timestamp->now_ns))
		return 0;
	if (count_round(thread, timestamp, kind, least_ns))
		report_round(thread, kind);
	return 0;
}

/*
 * Begins a round. @is_retry: a signal has ended the poll, and a program that makes it again at
 * once is still at its wait.
 */
static __always_inline void begin_round(struct thread *thread, const struct timestamp *timestamp,
					bool is_retry)
{
	if (!control.epoch)
		return;
	thread->round++;
	thread->round_is_retry = is_retry;
	thread->handler_end_ns = 0;
	if (is_retry)
		thread->retry_ran_ns = counted_ns();
	thread->round_start_ns = timestamp->now_ns;
	thread->unsplit_ns = 0;
	if (has_timeline())
		begin_timeline(thread);
	thread->round_ends_ns = NEVER_NS;
	barrier();
	thread->round_stop_ns = NEVER_NS;
}

/*
 * Does @thread wait for one file amid a round? Libraries poll(2) a socket before each read with a
 * time-out, as resolvers do. In an event loop of epoll, select(2) or io_uring that is no wait of
 * the loop: nothing else of it goes on meanwhile.
 */
static __always_inline bool waits_for_one(const struct thread *thread, __u8 flags,
					  struct pt_regs *regs)
{
	return flags & SYSCALL_POLLS_ARRAY && thread->loops_otherwise && polled_count(regs) == 1;
}

/* @thread enters a call. Is that a poll? */
static __always_inline bool is_poll(const struct thread *thread, __u8 flags, struct pt_regs *regs)
{
	if (flags & SYSCALL_IS_POLL)
		return !waits_for_one(thread, flags, regs);
	return (flags & SYSCALL_MAY_POLL && ring_waits(regs)) ||
	       (flags & SYSCALL_RESTARTS && thread->round_is_retry);
}

static __always_inline bool has_rounds_by_poll(const struct thread *thread)
{
	return options.rounds == ROUNDS_BY_POLL && !thread->reports_off_cpu_rounds;
}

/* When @thread enters a call, which is now; with that its round may end. */
static __always_inline __u64 entry_ns(struct thread *thread, __u8 flags, struct pt_regs *regs)
{
	if (has_rounds_by_poll(thread) && is_poll(thread, flags, regs))
		return round_end_ns(thread);
	return bpf_ktime_get_ns();
}

/* @thread enters a call. Does a round end with it? */
static __always_inline void end_round_by_call(struct thread *thread, __u8 flags,
					      struct pt_regs *regs,
					      const struct timestamp *timestamp)
{
	if (!has_rounds_by_poll(thread))
		return;
	if (is_poll(thread, flags, regs)) {
		thread->polls = 1;
		end_round(thread, timestamp, ROUND_IS_LONG, options.round_ns);
	} else if (flags & SYSCALL_ENDS_HANDLER) {
		if (!thread->handler_end_ns)
			thread->handler_end_ns = timestamp->now_ns;
	} else if (!(flags & SYSCALL_IS_FUTEX)) {
		thread->round_is_retry = 0;
	}
}

/* @thread leaves a call: a poll, with which a round begins? */
static __always_inline bool leaves_poll(struct thread *thread, __u8 flags)
{
	bool polls_array = flags & SYSCALL_POLLS_ARRAY;

	if (!has_rounds_by_poll(thread))
		return false;
	/* Where its entry was missed, what it polled is not known. */
	if (!thread->polls &&
	    (!(flags & SYSCALL_IS_POLL) || (polls_array && thread->loops_otherwise)))
		return false;
	thread->polls = 0;
	thread->loops_otherwise = !polls_array;
	return true;
}

/* Begins a round of the current thread, as begin_round(). */
static __always_inline void begin_own_round(struct thread *thread,
					    const struct timestamp *timestamp, bool is_retry)
{
	note_own_times(&thread->round_times, thread);
	begin_round(thread, timestamp, is_retry);
}

/* @thread leaves a call, and with a poll begins a round. */
static __always_inline void begin_round_by_call(struct thread *thread, __u8 flags, long value,
						const struct timestamp *timestamp)
{
	if (leaves_poll(thread, flags))
		begin_own_round(thread, timestamp, was_interrupted(value));
}

/*
 * A trigger was hit in the program of the current thread: ends its round, if one is open and
 * @ends, and begins one, if none is and @begins.
 */
static __always_inline void pass_round(__u64 now_ns, bool ends, bool begins)
{
	struct thread *thread = find_thread(bpf_get_current_task_btf());
	struct timestamp timestamp = {.now_ns = now_ns};

	if (!thread)
		return;
	see_round(&timestamp, thread);
	if (ends && thread->round_stop_ns == NEVER_NS) {
		timestamp.now_ns = round_end_ns(thread);
		enter_mode(thread, find_or_make_record(thread, &timestamp), thread->mode,
			   &timestamp);
		end_round(thread, &timestamp, ROUND_IS_LONG, options.round_ns);
	}
	if (begins && thread->round_stop_ns != NEVER_NS)
		begin_own_round(thread, &timestamp, false);
}

/*
 * @thread is gone: its records are of no use any more. If a signal ended it, its own or one of its
 * process, that cut its round short.
 */
static __always_inline void end_rounds(struct thread *thread, struct task_struct *task,
				       const struct timestamp *timestamp)
{
	if (!options.rounds || !thread->round)
		return;
	if (task->flags & PF_SIGNALED && !thread->reports_off_cpu_rounds &&
	    length_since(timestamp->now_ns, thread->round_start_ns) >= options.round_ns)
		end_round(thread, timestamp, ROUND_IS_CUT_SHORT, options.round_ns);
	report_round(thread, ROUND_THREAD_ENDED);
}

#endif
