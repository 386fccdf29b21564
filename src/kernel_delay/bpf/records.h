/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What crosses the boundary between a session's programs and user space: the session itself.
 * Threads' records are in thread_records.h and event_records.h, Open vSwitch's in ../openvswitch/.
 *
 * These headers are compiled into the programs and into the extensions that handle their
 * records, and are the declarations of loader/_records; so they are kept to plain structs,
 * enums and integer constants.
 *
 * Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef KERNEL_DELAY_RECORDS_H
#define KERNEL_DELAY_RECORDS_H

/* TASK_COMM_LEN, include/linux/sched.h */
#define COMM_LENGTH 16
#define IRQ_NAME_LENGTH 32

/* Numbers below this have flags, in both of the tables; a power of two. x32 has some from 512 on.
 */
#define FLAGGED_SYSCALLS 1024
#define SYSCALL_TABLES 2

/* Windows whose boundaries are remembered; a power of two. */
#define WINDOWS 4096

/* No window's epoch: that of the records before the first one. */
#define NO_FREED_EPOCH 0

/* The record rings; each has its part of the slots that are freed. */
#define THREAD_RING 0
#define SYSCALL_RING 1
#define HARD_IRQ_RING 2
#define OWNER_RING 3
#define SLEEP_RING 4
#define TIMELINE_RING 5
#define RECORD_RINGS 6

/* As many as an index of a ring is bounded by; a power of two. */
#define RING_SLOTS 8

/* Bucket B counts lengths from 2^B ns on; the last, all from 2.1 s on. */
#define HISTOGRAM_BUCKETS 32

/* What opens and what closes windows; with neither, user space plans both boundaries. */
enum trigger_option {
	TRIGGER_STOP = 1, /* a trigger closes windows, not the time */
	TRIGGER_SAME_THREAD = 2, /* only in the thread that opened the window */
};

/* What begins and ends a thread's rounds, which are its epochs then; see round.h. */
enum round_source {
	ROUNDS_BY_POLL = 1,
	ROUNDS_BY_TRIGGER,
};

/* How an event's user stack is taken. */
enum stack_mode {
	STACK_NONE,
	STACK_FRAME_POINTERS, /* addresses, as the kernel finds them */
	STACK_COPY, /* registers and memory, to unwind later */
	STACK_WALK, /* addresses, as walk.h finds them */
};

/* Set before the programs are loaded, constant to the verifier. */
struct options {
	__u32 tgid; /* the target, as the initial PID namespace numbers it; 0: see target.h */
	__u32 pid_level; /* how deep the tool's PID namespace is; 0 is the initial one */
	__u32 thread_records; /* last slots of the record rings: powers of two, less 1 */
	__u32 syscall_records;
	__u32 hard_irq_records;
	__u32 owner_records;
	__u32 sleep_records;
	__u32 freed_slots; /* size of each ring's part of that map, a power of two */
	__u32 slices; /* kept of each CPU, a power of two */
	__u32 cpus; /* numbers that they may have */
	__u32 timeline_slices; /* a CPU's ring, or with @rounds a round_timeline, has room for, a
				  power of two; 0: no timeline */
	__u32 trigger_options; /* enum trigger_option */
	__u32 accounting; /* 1: account for all of a window; 0: the tables alone */
	__u32 rounds; /* enum round_source; 0: epochs are windows */
	__u64 round_ns; /* a round of at least that length is reported */
	__u64 round_gap_ns; /* after a report only longer ones are reported, for so long */
	__u64 off_cpu_round_ns; /* a time off the CPUs of at least that is a round; 0: none is */
	__u64 off_cpu_name; /* of threads whose name begins so, in the first bytes of their comm */
	__u64 off_cpu_name_mask; /* that are not 0 here */
	__u64 window_ns; /* length of a window that a trigger opens and none closes */
	__u64 interval_ns; /* from a window's end to the first hit that may open the next */
	__u64 shortest_ns; /* a shorter window is not one of the @window_count */
	__u64 window_count; /* that triggers may open */
	__u64 sleep_ns; /* a sleep of that length is looked at, and shorter ones once in it */
	__s64 contexts_distance; /* from a CPU's run queue to what counts its contexts, or 0 */
	__u64 event_ns; /* a call that took at least that long is an event; all ones: none is */
	__u32 other_events; /* so are calls of numbers that syscall_flags has no slot for */
	__u32 stack_mode; /* enum stack_mode */
	__u32 walks_stacks; /* 1: with STACK_COPY those alone are copied whose walk is not whole */
	__u32 stack_bytes; /* at most copied of a user stack, a multiple of STACK_PAGE */
	__u32 event_bytes; /* size of the event buffer */
	__u32 waker_stacks; /* 1: it is noted from where threads are woken */
	__u32 totals; /* 1: there are struct thread_totals */
	__u32 children; /* 1: what a target forks is one too */
	__u32 freezer; /* 1: one is in a cgroup that version 1's freezer may freeze */
	__u32 guests; /* 1: it may have virtual machines */
	__u32 round_timelines; /* how many there are, a power of two */
	__u32 polls_only; /* 1: of all system calls polls alone are hooked, see polls.h */
	__u32 chains; /* 1: threads of followed processes are reported, see chains.h */
	__u8 syscall_flags[SYSCALL_TABLES][FLAGGED_SYSCALLS]; /* the second is COMPAT_SYSCALL's */
};

/* The thread in whose context a trigger was hit; in any process. */
struct trigger_hit {
	__u64 task; /* its identity: each CPU has an idle thread, all of them with tid 0 */
	__u32 tid; /* in the tool's PID namespace, 0 if it is not there */
	char comm[COMM_LENGTH];
};

/*
 * [start_ns, stop_ns). A window that waits for its stop trigger has stop_ns at
 * all ones; a slot without a window, and epoch 0, which has none, start_ns too.
 */
struct window {
	__u64 start_ns;
	__u64 stop_ns;
	struct trigger_hit start_hit;
	struct trigger_hit stop_hit;
};

/*
 * A ring of records. The counters only grow. Records are numbered from 1, so
 * that 0 is no record, and number N is at slot N modulo the ring's size. The
 * programs take the number after the head, and user space moves the tail on
 * when it has read all up to it.
 *
 * While a window is open user space can free single slots, of threads that
 * ended, for further records of that window's epoch: it puts them on a list of
 * the ring's own, and the programs take from there first. Such a record has a
 * number above all others, which ends in its slot's number.
 *
 * The programs wake user space when they take number @notice_head, or the
 * @notice_freed-th of the list.
 */
struct ring_position {
	__u64 head;
	__u64 tail;
	__u64 full; /* records not made because head would pass tail */
	__u64 freed_epoch; /* for which slots of the list may be taken, or NO_FREED_EPOCH */
	__u64 freed; /* slots that were put on the list */
	__u64 freed_taken; /* of these, how many were taken */
	__u64 notice_head;
	__u64 notice_freed;
};

/* The state both sides share while the programs run. */
struct control {
	__u64 epoch; /* number of the newest window; 0 is before the first */
	__u64 threads_registered; /* since the programs were attached */
	__u64 windows_kept; /* the slots of the windows before this one are free */
	__u64 windows_done; /* of those that triggers made, the ones long enough */
	__u64 missed_hits; /* start triggers that found no room for a window */
	__u64 missed_stacks; /* events that found no room for their stacks */
	__u64 missed_syscall_events; /* events that found no room at all */
	/* Events that no program was run on, as the next one of a thread or a CPU shows. */
	__u64 missed_calls; /* entries and returns of system calls and page faults */
	__u64 missed_wakeups;
	__u64 missed_switches; /* of threads of the target, onto a CPU or off it */
	__u64 missed_others_switches; /* of other tasks, on a CPU that a thread waited for */
	/* See note_untraced(): */
	__u64 untraced; /* a process as the initial PID namespace numbers it, and 1; 0: none */
	__u64 untraced_switches; /* missed ones, each behind a switch to a thread of that process */
	__u64 untraced_seen; /* switches from a thread of it that were not missed */
	__u64 missed_soft_irqs; /* of a kind that there was no room for */
	__u64 missed_threads; /* a program was run on them, but found no state of their thread */
	__u64 clamped_lengths; /* of intervals that ended before they began: see length_since() */
	__u64 entries_taken_over; /* by a fallback: see take_over() */
	__u64 exits_taken_over;
	__u32 stop_signal; /* that stopped the target last, 0: none yet */
	__u32 stop_sender; /* the process it came from, in the target's PID namespace; or 0 */
	__u32 stop_process; /* which it stopped, in the tool's */
	__u32 tracer; /* the process that stopped a thread last as its tracer, in the tool's; or 0
		       */
	__u64 other_stops_ns; /* up to when there may have been others than that sender's */
	__u64 signal_stop_ns; /* when a thread stopped last since a signal stops the process */
	__u64 tracer_stop_ns; /* when one stopped last since its tracer wants that */
	__u64 stop_end_ns; /* when one that was stopped went on last */
	__u32 traced; /* the process that it is of, in the tool's */
	__u32 unused;
	char tracer_comm[16];
	__u64 long_rounds; /* of at least options.round_ns, reported or not */
	__u64 suppressed_rounds; /* of those, too soon after a longer one: see is_to_be_reported()
				  */
	__u64 missed_rounds; /* of those to report, for which the buffer had no room */
	__u64 missed_ends; /* of threads, for which it had none */
	__u64 missed_totals; /* of threads that ended, for which their buffer had none */
	__u64 missed_chain_events; /* that found no room */
	__u64 round_gap_ns; /* when the first one ended that was reported in this gap */
	__u64 round_gap_longest_ns; /* of those that were reported in it */
	__u64 rounds_in_gap; /* how many were */
	__u64 without_timeline; /* 1: user space wants none of rounds any more */
	__u64 returns_hooked_ns; /* since when returns of calls are, 0: they are not; see polls.h */
	struct ring_position rings[RING_SLOTS];
	struct window windows[WINDOWS]; /* of epoch e at e modulo WINDOWS */
};

struct intervals {
	__u64 count;
	__u64 total_ns;
	__u64 min_ns;
	__u64 max_ns;
};

/* Of lengths of intervals, by their powers of two. */
struct histogram {
	__u32 counts[HISTOGRAM_BUCKETS];
};

/* MAX_PID_NS_LEVEL, include/linux/pid_namespace.h, and the initial level. */
#define PID_LEVELS 33

/* namespace.bpf.c: the process that is @pid in the PID namespace of that inode. */
struct namespace_query {
	__u32 pid;
	__u32 namespace_inode;
};

struct namespace_answer {
	__u32 tgid; /* in the initial namespace; 0: there is none */
	__u32 pid_level; /* of the namespace that was asked for */
};

#endif
