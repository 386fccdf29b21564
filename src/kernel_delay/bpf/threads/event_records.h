/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Single system calls, and copies of stacks.
 */
#ifndef KERNEL_DELAY_EVENT_RECORDS_H
#define KERNEL_DELAY_EVENT_RECORDS_H

#include "records.h"

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

#endif
