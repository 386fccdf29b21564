/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A live thread of the target.
 */
#ifndef KERNEL_DELAY_THREAD_H
#define KERNEL_DELAY_THREAD_H

#include "compat.h"
#include "event_records.h"
#include "target.h"
#include "thread_records.h"

/* Of a soft IRQ whose start is still to be read. */
#define STARTS_NOW 1

/*
 * A soft IRQ that is served on the time of @task. @lost_ns is what lies in it
 * and in @epoch's window and is not its own: hard ones and, where it can be
 * preempted, time off the CPU.
 */
struct soft_irq {
	__u64 task; /* its struct task_struct */
	__u64 since_ns; /* 0 outside of one */
	__u64 epoch;
	__u64 lost_ns;
	__u64 lost_total_ns; /* the same, in windows and out of them */
	__u64 lost_before_ns; /* as @lost_ns was when @epoch came */
};

/* A time that a thread was off its CPU. */
struct off_cpu_time {
	__u64 from_ns;
	__u64 to_ns;
	__u64 syscall; /* that it was in, or NO_SYSCALL */
	__u32 state; /* enum scheduler_state */
	__u32 stack; /* where it slept, as in struct sleep_record */
};

/* What sleeps have alike that are summed up in one record. */
struct sleep_key {
	__u64 syscall;
	__u64 file;
	__u32 stack;
	__u32 waker; /* its id in the initial PID namespace, 0 for an interrupt */
	__u16 waker_kind;
	__u16 uninterruptible;
	__u32 waker_stack;
};

/* How many are kept of each thread, a power of two, and from which length on. */
#define OFF_CPU_TIMES 16
#define OFF_CPU_TIME_NS 50000

/* Since when a thread runs that the programs found running. */
#define BEFORE_ALL_WINDOWS 1

/* A wait for a CPU of a length that the kernel does not show. */
#define UNKNOWN_WAIT ((__u64)-1)
#define UNKNOWN_ARRIVALS ((__u32)-1)

/*
 * What must be known of a thread between its events, whether or not a window
 * is open. Only the thread itself writes it while it runs, and only the
 * scheduler's tracepoints, under its run queue's lock, while it does not.
 * state and since_ns are the tracepoints' alone, mode, mode_since_ns and
 * syscall the thread's alone: a program of the thread's own can be preempted
 * anywhere (from Linux 7.0 on).
 */
struct thread {
	/*
	 * What is needed together is together, for the cache's sake: some 64 bytes each, of which
	 * the first have 8 or 16 of the kernel's own before them. Of each event, and of a call:
	 */
	__u64 epoch; /* of @record */
	__u64 record; /* number of its thread_record, 0 if there was no room */
	__u32 state; /* enum scheduler_state */
	__u32 mode; /* enum execution_context */
	__u64 since_ns; /* when @state began, or what is charged of it ends; 0 if not known */
	__u64 state_changes; /* see struct thread_state */
	__u64 mode_since_ns; /* when @mode began, 0 if not known */
	__u64 syscall; /* that it is in, or NO_SYSCALL */

	__u64 syscall_since_ns;
	__u64 off_cpu_ns; /* of it, within the window; OFF_CPU_UNKNOWN */
	__u64 poll_return_ns; /* 0 if it has not returned from one */
	__u16 boundary; /* enum boundary: what its fallback need not note, see take_over() */
	/* As the kernel counts them until it last left a CPU: sleeps, arrivals on CPUs, waits */
	__u16 sleeps;
	__u32 arrivals;
	__u64 waits_ns; /* for a CPU */
	__u64 ran_ns; /* on a CPU in @mode and in the window of @ran_epoch, until it last left it */
	__u64 ran_epoch;
	__u64 run_since_ns; /* when it got on the CPU, 0: not known; of one in STATE_RUNNING */
	__u64 steal_since; /* of its CPU when it got there, and 1; 0: not known */

	/* A wait for a CPU or a lock: */
	union {
		__u64 ready_since_ns; /* when it began to wait for a CPU, wherever it waited since
				       */
		__u64 frozen_since_ns; /* as in struct thread_state */
	};
	union {
		__u64 first_slice; /* since @since_ns, of the CPU it waits for */
		__u64 blocked_until_ns; /* as in struct thread_state */
	};
	__u64 throttled_ns; /* in the window, of the wait for a CPU that is charged */
	__u64 group; /* as in struct thread_state */
	__u32 wait_cpu; /* that it waits for, and 1; 0: it waits for none, or that is not known */
	__u32 throttled; /* that group is still, as far as slices show that have ended */
	__u64 steal_ns; /* of its time on CPUs, until it last left one */
	__u64 lock; /* its address, while @futex_owner is not 0 */
	__u32 futex_owner; /* of @lock, while the syscall is futex; 0: no lock is waited for */
	__u32 tid;

	/* A sleep: */
	__u64 sleep_since_ns; /* @since_ns of the sleep that the next four are of */
	__u64 sleep_record; /* number of its sleep_record, UNSEEN_SLEEP, or 0: no room */
	__u32 sleep_stack; /* as in struct sleep_record */
	__u16 uninterruptible;
	__u16 sleep_is_short;
	__u64 woken_ns; /* when it was about to be woken from that sleep */
	__u64 woken_on; /* by this CPU, and 1 */
	__u64 unseen_ns; /* in short sleeps, of @unseen_record's, since one was looked at */
	__u64 unseen_record; /* number of the thread_record */
	__u64 call_sleep_ns; /* the longest of its call that was looked at: of an event */
	__u64 call_sleep_stack; /* as in struct sleep_record */
	struct owner_activity owner; /* of the owner of @lock, in the sleep of @sleep_since_ns */
	__u64 polled_file; /* of its newest poll(2), as in struct sleep_record; 0: not one alone */
	struct sleep_key sleep_key; /* no stack: the verifier follows what is on that */

	/* A round: */
	__u64 round; /* the number of its newest, see round.h; 0: none yet */
	__u64 round_start_ns;
	__u64 round_stop_ns; /* NEVER_NS while it is open; before the first one 0, as the start */
	__u64 round_ends_ns; /* from when on no interrupt is in it, NEVER_NS */
	__u64 retry_ran_ns; /* until it began, if it is a retry: the scheduler's count */
	__u64 handler_end_ns; /* when a signal's handler ended in it first, 0 */
	__u32 is_charged; /* more was in the round, or the next, than calls and the program */
	__u16 round_is_retry; /* as in begin_round() */
	__u8 polls;
	__u8 loops_otherwise; /* its round began with another call than poll(2) */
	__u32 reports_off_cpu_rounds; /* in place of rounds: it is not there to poll */
	__u32 is_renewed; /* its record is being made one of its newest round */
	__u32 is_interrupted; /* one was charged to it, see round_end_ns() */
	/* Where polls alone are hooked: */
	__u8 is_in_hook; /* its poll is being noted */
	__u8 polls_again; /* restart_syscall(2) goes on with its poll */
	__u16 samples;
	__s64 unsplit_ns; /* ran, and is charged to its program until samples show more */
	__u64 late_hard_irq_ns; /* of interrupts meanwhile */
	__u64 late_soft_irq_ns;
	__u64 round_reported_ns; /* when its newest reported one ended; 0: none was */
	__u64 round_reported_length_ns;
	struct task_times round_times; /* when it began */
	__u64 longest_round_ns;
	__u64 round_lengths[HISTOGRAM_BUCKETS]; /* as in struct histogram */

	__u64 identity; /* a sequence number, from 1 on */
	__u64 task; /* its struct task_struct: functions that are verified once take no pointer to
		       it */
	__u64 hard_irq_since_ns; /* 0 outside of one */
	__u64 hard_irq_handler; /* of the one that began last, see new_hard_irq_record() */
	__u64 guest_since_ns; /* 0 outside of one */
	struct soft_irq soft_irq; /* where it can be preempted, see soft_irqs */
	__u32 process; /* in the tool's PID namespace */
	__u32 own_tid; /* in its own PID namespace */
	__u64 freeze_ns; /* of its process, if it is the first thread: see find_freeze() */
	__u64 thaw_ns;
	__u32 kernel_worker; /* see is_kernel_worker() */
	__u64 regs; /* of its program: where struct pt_regs is, of the call that it leaves */
	__u64 modes_reported; /* of its timeline */
	__u64 timeline; /* number of its round_timeline; 0: it has none */
	__u64 ran_total_ns; /* as ran_ns, in windows and out of them */
	struct thread_totals totals;
	struct off_cpu_time off_cpu_times[OFF_CPU_TIMES]; /* at @off_cpu_count modulo that */
	__u64 off_cpu_count;
	__u32 syscall_records[DIRECT_SYSCALLS]; /* slots; valid if the record there agrees */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Is @thread one whose rounds are its times off the CPUs, now that it is called @comm? */
static __always_inline void note_off_cpu_rounds(struct thread *thread, const char *comm)
{
	__u64 name = 0;

	if (!options.off_cpu_round_ns)
		return;
	bpf_probe_read_kernel(&name, sizeof(name), comm);
	thread->reports_off_cpu_rounds = (name & options.off_cpu_name_mask) == options.off_cpu_name;
}

/*
 * The thread of @task, which is of the target; NULL if it was not registered. Before
 * the first window that is no loss: the programs are attached first and the
 * threads that are there are registered then.
 */
static __always_inline struct thread *find_thread(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!thread && control.epoch)
		count_up(&control.missed_threads);
	return thread;
}

/* Registers a thread the first time; not to be called under a run queue's lock. */
static __always_inline struct thread *register_thread(struct task_struct *task,
						      enum scheduler_state state)
{
	struct thread *thread;

	thread = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		count_up(&control.missed_threads);
		return NULL;
	}
	if (!thread->identity) {
		thread->identity = __sync_fetch_and_add(&control.threads_registered, 1) + 1;
		thread->task = (__u64)task;
		thread->tid = thread_id(task);
		thread->process = process_id(task);
		thread->own_tid = own_task_id(task);
		thread->kernel_worker = is_kernel_worker(task);
		thread->syscall = NO_SYSCALL;
		thread->epoch = -1;
		thread->arrivals = UNKNOWN_ARRIVALS;
		thread->state = state;
		if (options.totals)
			thread->totals.since_ns = bpf_ktime_get_ns();
		note_off_cpu_rounds(thread, task->comm);
	}
	return thread;
}

static __always_inline __u32 uprobes_of(const struct task_struct *task)
{
	const struct mm_struct *mm = BPF_CORE_READ(task, mm);
	unsigned long flags, has, recalculates;

	if (!mm || !read_mm_flags(mm, &flags))
		return UPROBES_UNKNOWN;
	/* Without a branch, as length_since(). */
	has = flags / MMF_HAS_UPROBES & 1;
	recalculates = flags / MMF_RECALC_UPROBES & has;
	barrier_var(recalculates);
	return UPROBES_NONE + has * (UPROBES_SET - UPROBES_NONE) - recalculates * UPROBES_SET;
}

/*
 * Finds out where a thread is of which no event was seen before. Here or off
 * its CPU it is in the kernel, and at the top of its stack is what it came in
 * with; the number there is negative unless that was a syscall. Linux 5.15 has
 * this; before, the thread's next syscall shows it.
 */
static __always_inline void settle_mode(struct task_struct *task, __u32 *mode, __u64 *syscall)
{
	__s32 number;

	if (is_kernel_worker(task)) {
		*mode = MODE_USER;
		return;
	}
	if (!HAS_TASK_PT_REGS)
		return;
	if (task->on_cpu && task != bpf_get_current_task_btf())
		return;
	number = syscall_number((struct pt_regs___syscall *)bpf_task_pt_regs(task));
	*mode = number < 0 ? MODE_USER : MODE_SYSCALL;
	if (number >= 0)
		*syscall = syscall_id(task, number);
}

/* As find_thread(), and where the thread is, if the kernel shows it. */
static __always_inline struct thread *find_settled_thread(struct task_struct *task)
{
	struct thread *thread = find_thread(task);

	if (thread && thread->mode == MODE_UNKNOWN)
		settle_mode(task, &thread->mode, &thread->syscall);
	return thread;
}

/*
 * The soft IRQ that is served now, and what lies in it that is not its own.
 *
 * One has its CPU until it ends, so it is noted by the CPU: its entry need not
 * look for the thread. With PREEMPT_RT it can be preempted, and is noted by the
 * thread whose time it is served on.
 */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct soft_irq);
} soft_irqs SEC(".maps");

static __always_inline struct soft_irq *soft_irq_of_cpu(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&soft_irqs, &only);
}

/* That of the current task, which may not have been registered. */
static __always_inline struct soft_irq *soft_irq_of_task(struct task_struct *task)
{
	struct thread *thread;

	if (!SOFT_IRQS_ARE_PREEMPTED)
		return soft_irq_of_cpu();
	thread = find_thread(task);
	return thread ? &thread->soft_irq : NULL;
}

/* That of the current thread. */
static __always_inline struct soft_irq *soft_irq_of(struct thread *thread)
{
	return SOFT_IRQS_ARE_PREEMPTED ? &thread->soft_irq : soft_irq_of_cpu();
}

/* @length_ns of @timestamp's window, which end now, are not @soft_irq's own. */
static __always_inline void take_from_soft_irq(struct soft_irq *soft_irq,
					       const struct timestamp *timestamp, __u64 length_ns)
{
	if (!soft_irq || !soft_irq->since_ns)
		return;
	if (soft_irq->epoch != timestamp->epoch) {
		soft_irq->lost_before_ns = soft_irq->lost_ns;
		soft_irq->lost_ns = 0;
	}
	soft_irq->epoch = timestamp->epoch;
	soft_irq->lost_ns += length_ns;
}

/* What lies in @soft_irq and in the window before @epoch's, and is not its own. */
static __always_inline __u64 lost_before(const struct soft_irq *soft_irq, __u64 epoch)
{
	return soft_irq->epoch == epoch ? soft_irq->lost_before_ns : soft_irq->lost_ns;
}

/* The same of time off the CPU that @thread spent; its soft IRQ is elsewhere noted by the CPU. */
static __always_inline void take_off_cpu_from_soft_irq(struct thread *thread,
						       const struct timestamp *timestamp,
						       __u64 length_ns)
{
	if (SOFT_IRQS_ARE_PREEMPTED)
		take_from_soft_irq(&thread->soft_irq, timestamp, length_ns);
}

#endif
