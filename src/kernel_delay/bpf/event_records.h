/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What is reported one by one: system calls, with copies of stacks; slices of a timeline; rounds.
 * And the tables that stacks are unwound by.
 */
#ifndef KERNEL_DELAY_EVENT_RECORDS_H
#define KERNEL_DELAY_EVENT_RECORDS_H

#include "records.h"
#include "thread_records.h"

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

/* As many frames are walked by tables. */
#define WALKED_FRAMES 128

/* Stands for the frames, which are not known, above those of a stack that is not whole. */
#define NO_FRAME 1

/*
 * Followed by the user stack's bytes or, where no page of it was copied, by the addresses of its
 * frames.
 */
struct event_stacks {
	__u32 kernel_frames; /* used of kernel[]; 0 is none, and only behind all others */
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
 * What threads did one after the other: slices.
 */

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

/* One thing that a thread did, or was kept by; reported when it is over. */
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
	__u64 head; /* slices that were reported */
	__u64 lost[SLICE_CLASSES]; /* that found no room */
	__u64 unused[3];
	__u64 tail; /* slices that were read */
	__u64 unused_behind[7];
};

/*
 * A thread's timeline of its newest round: in the first half of its slices the first that were
 * reported, and in the other the last, in a ring.
 */
struct round_timeline {
	__u64 number; /* in its ring, 0: it is free */
	__u64 thread; /* whose it is, by identity */
	__u64 reported; /* slices */
	__u64 modes_before; /* that were reported of the thread, when the round began */
};

/*
 * Rounds of threads, and totals of all their time.
 */

/* What a struct round_notice reports. */
enum round_notice_kind {
	ROUND_IS_LONG,
	ROUND_THREAD_ENDED, /* its records are of no use any more; the round is not over */
	ROUND_IS_CUT_SHORT, /* as long, and not over: a signal ended its thread */
	ROUND_IS_OFF_CPU, /* as long; a time off the CPUs of a thread that does not poll */
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
	struct task_times begun; /* as it was then; but of ROUND_IS_OFF_CPU */
	struct task_times ended;
	__u64 suppressed; /* control.suppressed_rounds by then */
	__s64 unsplit_ns; /* ran, of which no sample says whether that was in calls */
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
	__u64 system_ns; /* the same: in the kernel, by clock ticks */
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

/* What is reported of them: of those that are there by an iterator, at its end through a buffer. */
struct reported_totals_head {
	__u64 identity;
	__u64 now_ns;
	__u32 tid;
	__u32 kernel_worker; /* as in struct thread_record */
	char comm[COMM_LENGTH];
	struct thread_state now;
};

struct reported_totals {
	struct reported_totals_head head;
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

/*
 * The tables that stacks are unwound by in the kernel. User space makes them of call frame
 * information: which rule finds the caller from each instruction on.
 */

/* The call frame address (CFA): what the stack pointer is in the caller. DWARF 5, 6.4.1. */
enum cfa_rule {
	CFA_UNKNOWN, /* the walk ends here, and the stack does not */
	CFA_RSP, /* rsp + cfa_offset */
	CFA_RBP, /* rbp + cfa_offset */
	CFA_AT_RBP, /* what is stored at rbp + cfa_offset: GCC's aligned frames */
	CFA_PLT, /* rsp + 16 from byte cfa_offset of a 16-byte slot on, before it rsp + 8 */
	CFA_FRAME_POINTER, /* there is no rule: rbp + 16, if that looks like a frame pointer */
	CFA_OUTERMOST, /* nothing called this function */
};

/* The caller's rbp. Its return address is always 8 bytes below the CFA. */
enum rbp_rule {
	RBP_SAME,
	RBP_AT_CFA, /* stored at CFA + rbp_offset */
	RBP_AT_RBP, /* stored at rbp + rbp_offset */
	RBP_UNKNOWN,
};

struct unwind_rule {
	__s32 cfa_offset;
	__s16 rbp_offset;
	__u8 cfa; /* enum cfa_rule */
	__u8 rbp; /* enum rbp_rule */
};

/*
 * A table has entries of 4 words: the header, the ranges of code sorted, the rules, and each
 * file's rows sorted. A row has its address in the file above the number of its rule, 32 bits
 * each; it holds up to the next one. The first rule is CFA_UNKNOWN, and the last rows of an entry
 * that have no address have all ones.
 */
#define UNWIND_WORDS 4
#define UNWIND_RANGES 4095

struct unwind_entry {
	__u64 words[UNWIND_WORDS];
};

struct unwind_header {
	__u64 generation; /* of the table, in the bits that no address has */
	__u64 start_stack; /* where the process's stack began, which no other program's does */
	__u64 unused;
	__u32 range_count;
	__u32 first_rule; /* number of an entry */
};

struct unwind_range {
	__u64 start;
	__u64 end;
	__u64 bias; /* from addresses in the file to those in memory */
	__u32 first_row; /* number of an entry */
	__u32 row_entries; /* 0: there are none, and frames are found by their pointers */
};

#endif
