/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where a thread stands: what where.bpf.c writes of each.
 */
#ifndef KERNEL_DELAY_WHERE_RECORDS_H
#define KERNEL_DELAY_WHERE_RECORDS_H

#define STANDING_FRAMES 64
#define STANDING_REGISTERS 33
#define STANDING_COMM 16

/* Which kind of lock of the kernel's a thread waits for. */
enum kernel_lock_kind {
	KERNEL_LOCK_NONE,
	KERNEL_LOCK_MUTEX,
	KERNEL_LOCK_SEMAPHORE,
	KERNEL_LOCK_RWSEM,
	KERNEL_LOCK_READERS, /* an rwsem that readers hold; the last that took it is the holder */
};

/* Times are of the scheduler's clock: rq.clock, or where it says so rq.clock_task. */
struct standing_thread {
	__u64 switches; /* that it left a CPU so far: two records with the same are of one sleep */
	__u64 now_ns; /* a tick old at most, as a rule */
	__u64 left_cpu_ns; /* by clock_task; 0: not known */
	__u64 not_counted_ns; /* by which its CPU's clock_task was behind clock, when seen last */
	__u64 queued_ns; /* when it began to wait for a CPU; 0: it waits for none, or not known */
	__u64 syscall; /* as syscall_id() has it, or NO_SYSCALL */
	__u64 jobctl; /* of task_struct */
	__u64 thread_pointer; /* FS base or TPIDR_EL0; 0: not known */
	__u64 kernel_lock; /* the address of the one that it waits for; 0: none, or not known */
	__s64 mmap_lock; /* the count of the address space's rwsem; 0: free, or not known */
	__u32 tid; /* in the tool's PID namespace, as the next */
	__u32 process;
	__u32 own_tid; /* in its own PID namespace */
	__u32 task_state; /* task_struct.__state */
	__u32 on_cpu;
	__u32 cpu; /* that it is on, or was last */
	__u32 is_frozen;
	__u32 is_throttled; /* holds where it is runnable */
	__u32 is_kernel_worker; /* it has no program */
	__u32 has_registers;
	__u32 kernel_frames; /* used of kernel[] */
	__u32 lock_kind; /* enum kernel_lock_kind */
	__u32 lock_holder; /* a thread, in the tool's PID namespace; 0: not known */
	__u32 unused;
	__u64 registers[STANDING_REGISTERS]; /* user mode's, in the order of struct pt_regs */
	__u64 kernel[STANDING_FRAMES]; /* return addresses */
	char comm[STANDING_COMM];
	char lock_holder_comm[STANDING_COMM];
};

#endif
