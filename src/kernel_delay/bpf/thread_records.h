/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a thread does, and in an epoch did and was kept by.
 */
#ifndef KERNEL_DELAY_THREAD_RECORDS_H
#define KERNEL_DELAY_THREAD_RECORDS_H

#include "records.h"

/* Soft IRQ vectors that have room; NR_SOFTIRQS is 10 from 5.14 to 6.18. */
#define SOFT_IRQ_VECTORS 16

/* A thread's calls that are found without a search; a power of two. Linux 6.18 has 470. */
#define DIRECT_SYSCALLS 512

/* NR_VECTORS, arch/x86/include/asm/irq_vectors.h, 5.14 to 6.18. */
#define IRQ_VECTORS 256

/* How far a thread's list of interrupt handlers is searched. */
#define HARD_IRQS_PER_THREAD 32

/*
 * The number of lists that a thread's owners are in. A crowd of tasks that had its CPU leaves room
 * for locks. A full one takes only sums of an owner's other locks, and is searched as far as all
 * together go.
 */
#define OWNER_LISTS 16
#define TASKS_PER_LIST 8
#define OWNERS_PER_LIST 12
#define OWNERS_SEARCHED 16

/*
 * The number of lists of a thread's sleeps, by where it slept, on which file and who woke it. A
 * full one takes no further file, then no further waker, only where, and is searched as far as all
 * together go.
 */
#define SLEEP_LISTS 8
#define SLEEPS_ON_FILES 8
#define SLEEPS_PER_LIST 12
#define SLEEPS_SEARCHED 16

/* Frames that are kept of where a thread slept, from the innermost on: they show for what. */
#define SLEEP_FRAMES 20

/*
 * Slots for stacks, a power of two, and how many are tried of one's. The kernel has
 * some hundred ways to sleep.
 */
#define SLEEP_STACKS 1024
#define SLEEP_STACKS_TRIED 8

/* owner_record.lock of several locks of one owner. */
#define SEVERAL_LOCKS 1

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
	SYSCALL_HAS_FILE = 64, /* its first argument is a descriptor, or how many bits */
	SYSCALL_POLLS_ARRAY = 128, /* poll(2) or ppoll(2): its second argument is how many files */
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
	union {
		__u64 ready_since_ns; /* when it began to wait for a CPU: no other wait has it */
		__u64 frozen_since_ns; /* of a sleeper, if after @state_since_ns: see find_freeze()
					*/
	};
	union {
		__u64 first_slice; /* since @state_since_ns, of the CPU it waits for */
		__u64 blocked_until_ns; /* of a sleeper: from here on it may have been frozen */
	};
	__u64 lock; /* that it waits for in futex(2), while @futex_owner is not 0 */
	__u32 futex_owner;
	__u32 wait_cpu; /* the CPU that it waits for, and 1; 0: not known, or none */
	__u32 mode; /* enum execution_context */
	__u32 state; /* enum scheduler_state */
	__u32 sleep_stack; /* where it sleeps, as in struct sleep_record */
	__u32 uninterruptible;
	__u64 sleep_file; /* the same */
	__u64 sleep_record; /* number of that of its newest wake-up; only in dumps */
	/*
	 * Its cgroup's queue on the CPU that it waits for: struct cfs_rq's address. 0 where that
	 * is not known, and where tasks are throttled one by one: their own states show it.
	 */
	__u64 group;
	/* Interrupts that are served on its time since, 0: none; and what is not the soft one's. */
	__u64 hard_irq_since_ns;
	__u64 soft_irq_since_ns;
	__u64 soft_irq_lost_ns;
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
	__u64 next; /* whom the newest switch was to, a struct task_struct; 0: not known */
	__u64 behind_ns; /* its clock, of the programs' as of that switch; 0: not known */
	__u64 unused[3];
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
	__u8 kernel_worker; /* as in struct thread_record */
	__u8 on_cpu;
	__u8 returned; /* from its call, which was not seen */
	__u8 woken; /* the same of its sleep */
	__u32 ran; /* since it was last seen to leave a CPU */
	__u32 uprobes; /* enum uprobes */
	__u32 own_tid; /* as in struct thread_record */
	__u32 process; /* the same */
	__u32 policy; /* as in struct task_struct, as the next two */
	__u32 static_prio;
	__u32 rt_priority;
	__u64 made_ns; /* when it was made */
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
	__u64 tool_ns; /* of MODE_USER: it copied stacks, without interrupts within */
	__u64 faults; /* page faults of the thread's program */
	__u64 signals; /* delivered to handlers of its own */
	__u32 signal; /* the newest of them; 0: there was none */
	__s32 signal_code; /* its si_code, see sigaction(2) */
	__u32 signal_sender; /* who sent it, as its receiver numbers processes, if one did */
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
	__u64 owner; /* number of the owner_record that was charged last, 0: none */
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
	__u64 across; /* calls that began before the window and ended in it */
	__u64 timed_out; /* of @calls and @across, those that their time-out ended */
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

/*
 * What the owner of a lock did while it was waited for. What of @known_ns is none of the
 * others it was on a CPU, or off it so shortly that it does not matter.
 */
struct owner_activity {
	__u64 known_ns;
	__u64 blocked_ns;
	__u64 ready_ns;
	__u64 held_ns; /* stopped, throttled or frozen */
	__u64 syscall; /* in which it was blocked most, or NO_SYSCALL if it was in none */
	__u64 vote_ns; /* for that call and stack: what they had, less what all others had since */
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
	struct owner_activity owner; /* of a lock, in those of its waits that the owner ended */
};

/* Who wakes a thread. An interrupt's handler is not what it interrupts. */
enum waker_kind {
	WAKER_UNKNOWN, /* maybe an interrupt; or one for whom there was no room */
	WAKER_THREAD,
	WAKER_HARD_IRQ,
	WAKER_SOFT_IRQ,
};

/*
 * A thread's sleeps in one place, on one file, that one waker ended, in one epoch; clipped to the
 * window.
 */
struct sleep_record {
	__u64 number; /* in its ring; written last, when the rest is valid */
	__u64 thread; /* thread_record.number */
	__u64 next; /* number of the next record in the list, 0: none */
	__u64 syscall; /* that it was in, or NO_SYSCALL */
	__u64 file; /* the call's descriptor, and 1; 0: not known. Above: 32 bits of the inode */
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

#endif
