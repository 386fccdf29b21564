/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What crosses the boundary between a session's programs and user space; ovs/ has its own.
 *
 * This file is compiled three times: into the programs, into the Python
 * extension loader/_records, and as that extension's declarations; so it is
 * kept to plain structs, enums and integer constants.
 *
 * Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef KERNEL_DELAY_RECORDS_H
#define KERNEL_DELAY_RECORDS_H

/* TASK_COMM_LEN, include/linux/sched.h */
#define COMM_LENGTH 16
#define IRQ_NAME_LENGTH 32

/* Soft IRQ vectors that have room; NR_SOFTIRQS is 10 from 5.14 to 6.18. */
#define SOFT_IRQ_VECTORS 16

/* A thread's calls that are found without a search; a power of two. Linux 6.18 has 470. */
#define DIRECT_SYSCALLS 512

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

/* NR_VECTORS, arch/x86/include/asm/irq_vectors.h, 5.14 to 6.18. */
#define IRQ_VECTORS 256

/* How far a thread's list of interrupt handlers is searched. */
#define HARD_IRQS_PER_THREAD 32

/*
 * The number of lists that a thread's owners are in. A full one takes only sums of an
 * owner's other locks, and is searched as far as both together go.
 */
#define OWNER_LISTS 16
#define OWNERS_PER_LIST 12
#define OWNERS_SEARCHED 16

/*
 * The number of lists of a thread's sleeps, by where it slept and who woke it. A full one
 * takes only where, and is searched as far as both together go.
 */
#define SLEEP_LISTS 8
#define SLEEPS_PER_LIST 12
#define SLEEPS_SEARCHED 16

/* Frames that are kept of where a thread slept, from the innermost on: they tell for what. */
#define SLEEP_FRAMES 20

/*
 * Slots for stacks, a power of two, and how many are tried of one's. The kernel has
 * some hundred ways to sleep.
 */
#define SLEEP_STACKS 1024
#define SLEEP_STACKS_TRIED 8

/* owner_record.lock of several locks of one owner. */
#define SEVERAL_LOCKS 1

/* Bucket B counts lengths from 2^B ns on; the last, all from 2.1 s on. */
#define HISTOGRAM_BUCKETS 32

/*
 * What a thread is doing as the scheduler sees it, of which it is always doing
 * exactly one thing. STATE_UNKNOWN only until it was registered. Fewer than
 * STATE_SLOTS, a power of two to bound an index by.
 */
#define STATE_SLOTS 16
enum scheduler_state {
	STATE_UNKNOWN,
	STATE_RUNNING,
	STATE_READY_WOKEN,
	STATE_READY_PREEMPTED,
	STATE_BLOCKED,
	STATE_STOPPED,
	STATE_NOT_ALIVE,
	STATE_GUEST, /* running a virtual machine's code: only ever charged, never a thread's state
		      */
	STATE_THROTTLED, /* could run, but its cgroup's CPU quota is used up */
	STATE_FROZEN, /* by its cgroup's freezer */
};

/*
 * Where the thread's own execution is, on a CPU or off it: in its program, in
 * a syscall, or in a page fault of its program. MODE_UNKNOWN only until its
 * first event after the programs were attached. A kernel worker has no program
 * and makes no calls: its one mode is MODE_USER.
 */
#define MODE_SLOTS 4
enum execution_context {
	MODE_UNKNOWN,
	MODE_USER,
	MODE_SYSCALL,
	MODE_FAULT,
};

/*
 * A syscall is its number, as an unsigned 32-bit value, for every int is one
 * that a thread can ask for; and this bit, if it is the 32-bit ABI's.
 */
#define COMPAT_SYSCALL 8589934592

/* No syscall: neither is there one of its low 32 bits, nor is this an int's. */
#define NO_SYSCALL 6442450944

enum syscall_flag {
	SYSCALL_IS_POLL = 1,
	SYSCALL_HAS_EVENTS = 2, /* each call is an event */
	SYSCALL_IS_FUTEX = 4,
	SYSCALL_MAY_POLL = 8, /* io_uring_enter(2), by its arguments */
	SYSCALL_RESTARTS = 16, /* restart_syscall(2) */
	SYSCALL_ENDS_HANDLER = 32, /* sigreturn(2) */
};

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
};

/* What a slice of a timeline is: enum scheduler_state, or one of these. Fewer than 64. */
enum slice_kind {
	SLICE_CALL = 16, /* in a call, of the number @what */
	SLICE_COMPAT_CALL, /* by the 32-bit ABI */
	SLICE_UNSEEN_CALL, /* whose entry was not seen */
	SLICE_FAULT,
	SLICE_UNKNOWN_MODE, /* an end of it was missed */
	SLICE_HARD_IRQ, /* @what: the vector, or the low half of the handler's struct irqaction */
	SLICE_SOFT_IRQ, /* @what: its vector */
	/* User space's own: */
	SLICE_PROGRAM, /* in none of the modes above */
	SLICE_LOST_STATES, /* for which there was no room */
	SLICE_LOST_MODES,
};

/* What a timeline gives up when there is little room, the first of these first. */
#define SLICE_CLASSES 4
enum slice_class {
	SLICE_OF_INTERRUPT, /* of virtual machines' code too */
	SLICE_OF_STATE,
	SLICE_OF_MODE,
};

/* Programs that may be at once past the test whether there is room. */
#define SLICES_AT_ONCE 64

/* One thing that a thread did, or was kept by; told when it is over. */
struct timeline_slice {
	__u64 since_ns; /* 0: before anything was known */
	__u64 until_ns;
	__u32 thread; /* its identity */
	__u32 what; /* by its kind; of a state, the CPU waited for, and 1, or the sleep_stack */
	__u32 number; /* in its ring, the low half; written last, when the rest is valid */
	__u16 order; /* of a mode, among the thread's */
	__u8 kind; /* enum slice_kind, or enum scheduler_state */
	__u8 mode; /* enum execution_context, of the thread meanwhile */
};

/* A CPU's ring of slices. What each side writes is in a cache line of its own. */
struct timeline_ring {
	__u64 head; /* slices that were told */
	__u64 lost[SLICE_CLASSES]; /* that found no room */
	__u64 unused[3];
	__u64 tail; /* slices that were read */
	__u64 unused_behind[7];
};

/*
 * A thread's timeline of its newest round: in the first half of its slices the first that were
 * told, and in the other the last, in a ring.
 */
struct round_timeline {
	__u64 number; /* in its ring, 0: it is free */
	__u64 thread; /* whose it is, by identity */
	__u64 told; /* slices */
	__u64 modes_before; /* that were told of the thread, when the round began */
};

/* Set before the programs are loaded, constant to the verifier. */
struct options {
	__u32 tgid; /* the target, as the initial PID namespace numbers it; 0: see thread.h */
	__u32 pid_level; /* how deep the tool's PID namespace is; 0 is the initial one */
	__u32 thread_records; /* sizes of the record rings, powers of two */
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
	__u64 round_ns; /* a round of at least that length is told */
	__u64 round_gap_ns; /* after one that was told only longer ones are, for so long */
	__u64 absence_ns; /* an absence from CPUs of at least that is told; 0: none is */
	__u64 absent_name; /* of threads whose name begins so, in the first bytes of their comm */
	__u64 absent_name_mask; /* that are not 0 here */
	__u64 window_ns; /* length of a window that a trigger opens and none closes */
	__u64 interval_ns; /* from a window's end to the first hit that may open the next */
	__u64 shortest_ns; /* a shorter window is not one of the @window_count */
	__u64 window_count; /* that triggers may open */
	__u64 sleep_ns; /* a sleep of that length is looked at, and shorter ones once in it */
	__s64 contexts_distance; /* from a CPU's run queue to what counts its contexts, or 0 */
	__u64 event_ns; /* a call that took at least that long is an event; all ones: none is */
	__u32 other_events; /* so are calls of numbers that syscall_flags has no slot for */
	__u32 stack_mode; /* enum stack_mode */
	__u32 stack_bytes; /* at most copied of a user stack, a multiple of STACK_PAGE */
	__u32 event_bytes; /* size of the event buffer */
	__u32 waker_stacks; /* 1: it is noted from where threads are woken */
	__u32 totals; /* 1: there are struct thread_totals */
	__u32 children; /* 1: what a target forks is one too */
	__u32 round_timelines; /* how many there are, a power of two */
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
	__u64 missed_events; /* events of the target whose thread's state was out of reach */
	__u64 clamped_lengths; /* of intervals that ended before they began: see length_since() */
	__u64 entries_taken_over; /* by a stand-in: see stand_in.h */
	__u64 exits_taken_over;
	__u32 stop_signal; /* that stopped the target last, 0: none yet */
	__u32 stop_sender; /* the process it came from, in the target's PID namespace; or 0 */
	__u32 stop_process; /* which it stopped, in the tool's */
	__u32 unused;
	__u64 long_rounds; /* of at least options.round_ns, told or not */
	__u64 missed_rounds; /* of those to be told, for which the buffer had no room */
	__u64 missed_ends; /* of threads, for which it had none */
	__u64 missed_totals; /* of threads that ended, for which their buffer had none */
	__u64 round_told_ns; /* when the newest one ended that was told */
	__u64 round_told_length_ns;
	__u64 without_timeline; /* 1: user space wants none of rounds any more */
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

/*
 * What a thread does, and since when. The two sides of it change apart: its
 * own events change the mode, and the scheduler's the state, so that neither
 * can interrupt the other half way. A time of 0 is before anything was known.
 */
struct thread_state {
	__u64 epoch; /* of the thread's newest event */
	__u64 syscall; /* in MODE_SYSCALL, or NO_SYSCALL */
	__u64 mode_since_ns;
	__u64 state_since_ns;
	__u64 state_changes; /* twice the number of them; odd while one is being made */
	__u64 ready_since_ns; /* when it began to wait for a CPU; tells one wait from another */
	__u64 first_slice; /* since @state_since_ns, of the CPU it waits for */
	__u64 lock; /* that it waits for in futex(2), while @futex_owner is not 0 */
	__u32 futex_owner;
	__u32 wait_cpu; /* the CPU that it waits for, and 1; 0: not known, or none */
	__u32 mode; /* enum execution_context */
	__u32 state; /* enum scheduler_state */
	__u32 sleep_stack; /* where it sleeps, as in struct sleep_record */
	__u32 uninterruptible;
	/*
	 * Its cgroup's queue on the CPU that it waits for: struct cfs_rq's address. 0 where that
	 * is not known, and where tasks are throttled one by one: their own states show it.
	 */
	__u64 group;
};

/* A task that has a CPU. */
struct task_info {
	__u32 task; /* in the initial PID namespace; 0 is idle */
	__u32 tid; /* in the tool's; 0 for idle, and for one that is not in there */
	__u32 process; /* its process, in the tool's */
	__u32 policy; /* SCHED_OTHER and so on, include/uapi/linux/sched.h */
	__u32 rt_priority; /* 1 to 99 with SCHED_FIFO and SCHED_RR */
	__s16 nice;
	__u16 kernel_thread;
	char comm[COMM_LENGTH];
};

/*
 * @prev had the CPU until @end_ns: since the slice before ended, or since the
 * wait began for which it is the first. Those of a CPU follow each other without
 * a gap while a thread of the target waits for it; at other times there are none.
 */
struct slice {
	__u64 number; /* from 1 on; at @number modulo options.slices of the CPU's */
	__u64 end_ns;
	struct task_info prev;
	__u64 group; /* of @prev, as in struct thread_state */
	__u32 known; /* 0: a switch was missed since the slice before, so the time is several's */
	__u32 throttled; /* as it ended @group had used up its quota */
};

/* Of one CPU, as far as threads of the target wait for it; a cache line. */
struct run_queue {
	__u64 slices; /* number of the newest */
	__u64 switches; /* the kernel's count when it was last looked at, 0: not yet */
	__u32 waiting; /* threads, but for those in @moved; written under the run queue's lock */
	__u32 moved; /* that came from, or went off while on, another CPU; without that lock */
	__u64 unused[5];
};

/* What the kernel itself counts of a task since it was made: times by ticks. */
struct task_times {
	__u64 user_ns;
	__u64 system_ns;
	__u64 minor_faults;
	__u64 major_faults;
	__u64 migrations; /* to another CPU */
	__u64 steal_ns; /* while it was on a CPU, since it was registered; NO_STEAL_CLOCK */
};

/* More than can be stolen. */
#define NO_STEAL_CLOCK 4611686018427387904

/* PID_MAX_LIMIT, include/linux/threads.h: as many bits, in words of 64. */
#define TARGET_WORDS 65536

/* Whether uprobes are in a process's code. */
enum uprobes {
	UPROBES_UNKNOWN, /* one was taken out, and others may be left */
	UPROBES_NONE,
	UPROBES_SET,
};

/* What an iterator dumps of each thread that is there. */
struct dumped_thread {
	__u64 identity;
	__u32 tid;
	char comm[COMM_LENGTH];
	__u16 kernel_worker; /* as in struct thread_record */
	__u16 on_cpu;
	__u32 uprobes; /* enum uprobes */
	__u32 own_tid; /* as in struct thread_record */
	__u32 process; /* the same */
	__u32 unused;
	struct task_times times;
	struct thread_state now;
	struct slice
		running; /* of now.wait_cpu, if that is not 0: not ended, and the next number */
};

/*
 * Where a thread's time went in one epoch, every interval clipped to the
 * window. @mode_ns holds all time in a mode, whether the thread was on a CPU
 * meanwhile or not; @state_ns (off a CPU) and the interrupts say how much of
 * that it was kept from running. not_alive_ns and all of mode_ns make the window,
 * but for what comes after the thread's last event.
 */
struct account {
	struct thread_state first; /* before the first event of the epoch */
	__u64 not_alive_ns; /* until it was created */
	__u64 exit_ns; /* when it left its CPU for the last time, or 0 */
	__u64 mode_ns[MODE_SLOTS];
	__u64 state_ns[MODE_SLOTS][STATE_SLOTS];
	__u64 hard_irq_ns[MODE_SLOTS];
	__u64 soft_irq_ns[MODE_SLOTS]; /* without hard ones within */
	__u64 faults; /* page faults of the thread's program */
	__u64 signals; /* delivered to handlers of its own */
	__u64 other_tasks_ns; /* of tasks that had the CPU for which there was no record */
	__u64 unknown_tasks_ns; /* of waits, or parts, whose slices are overwritten or do not fit */
	__u64 other_owners_ns; /* of futex owners for which there was no record */
	__u64 short_sleeps; /* that were not looked at */
	__u64 short_sleeps_ns; /* without what others stand for */
	__u64 other_sleeps; /* for which there was no record */
	__u64 other_sleeps_ns;
	struct histogram run;
	struct histogram ready;
};

/*
 * One thread in one epoch. The first event of a thread after a window was
 * opened makes its record; later events until the next window is opened add
 * to it, so that a thread without a record had no event.
 */
struct thread_record {
	__u64 number; /* in its ring; written last, when the rest is valid */
	__u64 epoch;
	__u64 identity; /* of the thread: its sequence number; a tid may be used again */
	__u32 tid;
	__u16 exited;
	__u16 kernel_worker; /* one of io_uring's or vhost's, that never leaves the kernel */
	char comm[COMM_LENGTH];
	__u32 own_tid; /* in its own PID namespace: what is in the futexes that it owns */
	__u32 process; /* in the tool's PID namespace */
	__u64 hard_irqs; /* number of the newest hard_irq_record, 0: none */
	__u64 owners[OWNER_LISTS]; /* numbers of the newest owner_record, 0: none */
	__u64 sleeps[SLEEP_LISTS]; /* numbers of the newest sleep_record, 0: none */
	struct intervals long_poll; /* from here on all is counted */
	struct intervals run;
	struct intervals ready;
	struct intervals stopped;
	struct intervals soft_irqs[SOFT_IRQ_VECTORS];
	struct account account;
};

/*
 * One syscall of one thread in one epoch. The time in it within the window is
 * calls.total_ns and boundary_ns, of which state_ns is off a CPU.
 */
struct syscall_record {
	__u64 number; /* in its ring; written last, when the rest is valid */
	__u64 thread; /* thread_record.number */
	__u64 syscall;
	struct intervals calls;
	__u64 without_entry; /* calls that were denied before their entry was seen */
	__u64 boundary_ns; /* of calls that cross a boundary of the window */
	__u64 state_ns[STATE_SLOTS];
	struct histogram lengths;
};

/* One interrupt handler that ran on one thread's time in one epoch. */
struct hard_irq_record {
	__u64 number; /* in its ring; written last, when the rest is valid */
	__u64 thread; /* thread_record.number */
	__u64 next; /* number of the thread's next handler's record, 0: none */
	__u64 action; /* the handler's struct irqaction, as its identity; or a vector, x86's own */
	char name[IRQ_NAME_LENGTH];
	struct intervals runs;
};

/* Without accounting, and where an event was missed in the call or there was no room. */
#define OFF_CPU_UNKNOWN 9223372036854775807

/*
 * One call of a syscall, through the event buffer. Unless its stack_mode is
 * STACK_NONE it is followed by a struct event_stacks.
 */
struct syscall_event {
	__u64 entry_ns;
	__u64 exit_ns;
	__u64 off_cpu_ns; /* of the call, or OFF_CPU_UNKNOWN */
	__s64 value; /* what the call returned */
	__u64 syscall;
	__u32 tid;
	__u32 stack_mode; /* enum stack_mode: how those that follow were taken */
};

#define KERNEL_FRAMES 32
#define USER_FRAMES 127
#define STACK_PAGE 4096
#define STACK_BYTES_MAX 1048576

/* How far a stack is searched for pages to copy: 1 MiB; a bit each. */
#define STACK_PAGES_SEARCHED 256
#define STACK_PAGES_WORDS 4

/* struct pt_regs: 21 words on x86-64, 34 and more on arm64, of which these matter. */
#define REGISTERS 33

/* Followed by the user stack's bytes, or addresses for STACK_FRAME_POINTERS. */
struct event_stacks {
	__u32 kernel_frames; /* used of kernel[] */
	__u32 user_bytes;
	__u64 kernel[KERNEL_FRAMES];
	__u64 stack_end; /* above it there is no user stack */
	__u64 pages[STACK_PAGES_WORDS]; /* a bit for each copied, from the stack pointer's on */
	__u64 registers[REGISTERS]; /* user mode's, in the order of struct pt_regs */
};

/* What of a waker's program's stack is copied. */
#define WAKER_STACK_BYTES 16384
#define WAKER_STACKS 1024

/* From where a task wakes others; written once. */
struct waker_stack {
	__u64 hash; /* of what it has alike with all that it stands for, 0: this slot has none */
	__u32 written; /* 1 when the rest is valid */
	__u32 process; /* in the tool's PID namespace, 0: it is not there */
	struct event_stacks stacks;
	__u8 content[WAKER_STACK_BYTES]; /* must follow */
};

/* More pages than it is worth to copy, of a frame that only the ends matter of. */
#define LARGE_FRAME 16384
#define LARGE_FRAMES 2048
#define CODE_RANGES 1024

/*
 * Of a page of code, by the low bits of its number, whether there may be a
 * large frame's function on it. A power of two.
 */
#define FRAME_FILTER_WORDS 64

/* What is on the stack above a return address in (start, end]: so much of a function's frame. */
struct large_frame {
	__u64 start;
	__u64 end;
	__u64 size;
	__u64 function; /* its first instruction */
};

struct code_range {
	__u64 start;
	__u64 end;
};

/*
 * The functions of the target that have large frames, and all of its code;
 * both sorted. User space learns them from the unwind information. A count of
 * 0 while they are being written.
 */
struct large_frames {
	__u32 frame_count;
	__u32 code_count;
	__u64 filter[FRAME_FILTER_WORDS];
	struct large_frame frames[LARGE_FRAMES];
	struct code_range code[CODE_RANGES];
};

/*
 * What the owner of a lock did while it was waited for. What of @known_ns is none of the
 * others it was on a CPU, or off it so shortly that it does not matter.
 */
struct owner_doings {
	__u64 known_ns;
	__u64 blocked_ns;
	__u64 ready_ns;
	__u64 held_ns; /* stopped, throttled or frozen */
	__u64 syscall; /* in which it was blocked most, or NO_SYSCALL, as far as one was */
	__u64 vote_ns; /* for that slot: what it had, without what all others had since */
	__u32 stack; /* as in struct sleep_record */
	__u32 unused;
};

/*
 * Who had what one thread waited for in one epoch: a CPU, or a lock (a futex
 * that the owner's thread id is stored by). Times are clipped to the window.
 */
struct owner_record {
	__u64 number; /* in its ring; written last, when the rest is valid */
	__u64 thread; /* thread_record.number */
	__u64 next; /* number of the next record in the list, 0: none */
	__u64 lock; /* its address in the process, or SEVERAL_LOCKS; 0 for a CPU */
	struct task_info info; /* of a lock only the task: its owner, in the target's namespace */
	__u64 waits;
	__u64 wait_ns; /* when the newest of them began */
	__u64 total_ns;
	struct owner_doings owner; /* of a lock, in those of its waits that the owner ended */
};

/* Who wakes a thread. An interrupt's handler is not what it interrupts. */
enum waker_kind {
	WAKER_UNKNOWN, /* maybe an interrupt; or one for whom there was no room */
	WAKER_THREAD,
	WAKER_HARD_IRQ,
	WAKER_SOFT_IRQ,
};

/* A thread's sleeps in one place that one waker ended, in one epoch; clipped to the window. */
struct sleep_record {
	__u64 number; /* in its ring; written last, when the rest is valid */
	__u64 thread; /* thread_record.number */
	__u64 next; /* number of the next record in the list, 0: none */
	__u64 syscall; /* that it was in, or NO_SYSCALL */
	__u32 stack; /* slot in sleep_stacks, and 1; 0: not known */
	__u32 waker_stack; /* slot in waker_stacks, and 1; 0: not known, or not asked for */
	__u16 uninterruptible;
	__u16 waker_kind; /* enum waker_kind */
	__u32 unused;
	struct task_info waker; /* all 0 unless that is WAKER_THREAD */
	__u64 sleeps;
	__u64 total_ns;
	__u64 short_ns; /* of that, of short ones, with those that they stand for */
	__u64 max_ns;
};

/* Where a thread slept; written once. */
struct sleep_stack {
	__u64 hash; /* of the frames, 0: there is none in this slot */
	__u32 written; /* 1 when the frames are valid */
	__u32 unused;
	__u64 frames[SLEEP_FRAMES]; /* return addresses, the innermost first; 0 after the last */
};

/* What a struct round_notice tells. */
enum round_notice_kind {
	ROUND_IS_LONG,
	ROUND_THREAD_ENDED, /* its records are of no use any more; the round is not over */
	ROUND_IS_ABSENCE, /* as long; a time off the CPUs of a thread that does not poll */
};

/*
 * How a round's thread_record is numbered: its slot, and how often that was used. With
 * each round the number is another, so that no other record of it is valid any more.
 */
#define ROUND_SLOTS 1048576

/* Through the buffer of rounds. The thread's records are user space's from now on. */
struct round_notice {
	__u64 kind; /* enum round_notice_kind */
	__u64 identity;
	__u64 record; /* thread_record.number, 0 if there was no room; of the round if its epoch is
		       */
	__u64 round;
	__u64 start_ns;
	__u64 stop_ns;
	__u64 timeline; /* number of its round_timeline, 0: there is none */
	__u64 running_since_ns; /* when it got on the CPU that it had at the round's end */
	__u32 tid;
	__u32 unused;
	char comm[COMM_LENGTH];
	__u64 longest_ns; /* of all rounds of the thread */
	__u64 lengths[HISTOGRAM_BUCKETS]; /* as in struct histogram, of all rounds of the thread */
};

/* What an iterator dumps of each thread's rounds, and of what it does. */
struct thread_rounds {
	__u64 identity;
	__u64 round; /* the number of the newest, 0: none yet */
	__u64 start_ns;
	__u64 stop_ns; /* all ones while it is open */
	__u32 tid;
	__u32 own_tid;
	char comm[COMM_LENGTH];
	__u64 ran_ns; /* by the kernel's count, since the thread was made */
	__u64 runnable_ns; /* the same: in a run queue */
	struct thread_state now;
	__u64 longest_ns;
	__u64 lengths[HISTOGRAM_BUCKETS];
};

/*
 * Where all of a thread's time went since it was registered, in windows and out of them. As in
 * struct account; what is going on is not in it.
 */
struct thread_totals {
	__u64 since_ns; /* when it was registered, 0: there are none */
	__u64 not_alive_ns; /* from then until it was woken first */
	__u64 exit_ns;
	__u64 mode_ns[MODE_SLOTS];
	__u64 state_ns[MODE_SLOTS][STATE_SLOTS];
	__u64 hard_irq_ns[MODE_SLOTS];
	__u64 soft_irq_ns[MODE_SLOTS];
	__u64 ready_ns; /* in whole waits for a CPU, and these by length: as in struct histogram */
	__u64 ready_lengths[HISTOGRAM_BUCKETS];
	__u64 round_ns; /* in whole rounds, and these by length */
	__u64 round_lengths[HISTOGRAM_BUCKETS];
};

/* What is told of them: of those that are there by an iterator, at its end through a buffer. */
struct told_totals_head {
	__u64 identity;
	__u64 now_ns;
	__u32 tid;
	__u32 kernel_worker; /* as in struct thread_record */
	char comm[COMM_LENGTH];
	struct thread_state now;
};

struct told_totals {
	struct told_totals_head head;
	struct thread_totals totals;
	__u64 state_changes; /* of @now, when all the rest was read */
};

/* All calls of one number that have ended, on one CPU. */
struct syscall_totals {
	__u64 calls;
	__u64 total_ns;
};

/* A CPU's struct syscall_totals: of both tables, and of numbers that these have no slot for. */
#define SYSCALL_TOTALS 2049
#define OTHER_SYSCALLS 2048

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
