// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Where each thread of the target stands now. Nothing is attached to it: user space goes through
 * the threads twice, and reads their stacks in between. A thread that did not run meanwhile has
 * the stack that was read.
 */
#include "target.h"
#include "compat.h"
#include "kernel.h"
#include "where_records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#if defined(__TARGET_ARCH_x86)
#define REGISTERS_SAVED 21
#define THREAD_POINTER thread.fsbase
#elif defined(__TARGET_ARCH_arm64)
#define REGISTERS_SAVED 33
#define THREAD_POINTER thread.uw.tp_value
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mutex {
	struct {
		long counter;
	} owner;
};

struct rw_semaphore___owner {
	struct {
		long counter;
	} owner;
};

/* Not with PREEMPT_RT. */
struct rw_semaphore___count {
	struct {
		long counter;
	} count;
};

struct mm_struct___lock {
	struct rw_semaphore___count mmap_lock;
};

#pragma clang attribute pop

/* include/linux/hung_task.h, 6.16 to 6.18: the kind is in the lowest bits of the address. */
#define BLOCKER_TYPE_SEM 1
#define BLOCKER_TYPE_MASK 3

/* kernel/locking/mutex.h and rwsem.c, 5.14 to 6.18: flags in the owner's address. */
#define OWNER_FLAGS 7
#define RWSEM_READER_OWNED 1

struct standing_thread standing SEC(".data.standing");

/* The owner of the lock that @task waits for in the kernel, and that; NULL if it is not known. */
static __always_inline struct task_struct *kernel_lock_owner(struct task_struct *task, __u32 *kind)
{
	unsigned long blocker = task_blocker(task), owner;
	void *lock;

	lock = (void *)(blocker & ~(unsigned long)BLOCKER_TYPE_MASK);
	if (!lock)
		return NULL;
	standing.kernel_lock = (__u64)lock;
	switch (blocker & BLOCKER_TYPE_MASK) {
	case 0:
		*kind = KERNEL_LOCK_MUTEX;
		owner = BPF_CORE_READ((struct mutex *)lock, owner.counter);
		break;
	case BLOCKER_TYPE_SEM:
		*kind = KERNEL_LOCK_SEMAPHORE;
		owner = BPF_CORE_READ((struct semaphore *)lock, last_holder);
		break;
	default:
		owner = BPF_CORE_READ((struct rw_semaphore___owner *)lock, owner.counter);
		*kind = owner & RWSEM_READER_OWNED ? KERNEL_LOCK_READERS : KERNEL_LOCK_RWSEM;
	}
	return (struct task_struct *)(owner & ~(unsigned long)OWNER_FLAGS);
}

static __always_inline void note_kernel_lock(struct task_struct *task)
{
	struct task_struct *owner;

	standing.lock_kind = KERNEL_LOCK_NONE;
	standing.kernel_lock = 0;
	standing.lock_holder = 0;
	if (!has_blocker())
		return;
	owner = kernel_lock_owner(task, &standing.lock_kind);
	if (!owner)
		return;
	/* As long as it has the lock it is there; else what is read here is not. */
	standing.lock_holder = options.pid_level ? inner_task_id(owner, options.pid_level)
						 : BPF_CORE_READ(owner, pid);
	BPF_CORE_READ_STR_INTO(&standing.lock_holder_comm, owner, comm);
}

static __always_inline void note_times(struct task_struct *task)
{
	struct rq *here, *there;

	standing.now_ns = 0;
	standing.not_counted_ns = 0;
	standing.queued_ns = 0;
	standing.left_cpu_ns = task->se.exec_start;
	if (bpf_core_field_exists(task->sched_info.last_queued))
		standing.queued_ns = task->sched_info.last_queued;
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return;
	here = BPF_CORE_READ(bpf_get_current_task_btf(), se.cfs_rq, rq);
	there = BPF_CORE_READ(task, se.cfs_rq, rq);
	standing.now_ns = BPF_CORE_READ(here, clock);
	standing.not_counted_ns = BPF_CORE_READ(there, clock) - BPF_CORE_READ(there, clock_task);
}

static __always_inline void note_program(struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct pt_regs *regs;
	__s32 number;

	standing.has_registers = 0;
	standing.syscall = NO_SYSCALL;
	standing.mmap_lock = 0;
	if (!mm || standing.is_kernel_worker)
		return;
	if (bpf_core_field_exists(((struct rw_semaphore___count *)0)->count))
		standing.mmap_lock =
			BPF_CORE_READ((struct mm_struct___lock *)mm, mmap_lock.count.counter);
	if (!HAS_TASK_PT_REGS)
		return;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	number = syscall_number((struct pt_regs___syscall *)regs);
	if (number >= 0)
		standing.syscall = syscall_id(task, number);
	bpf_probe_read_kernel(standing.registers, REGISTERS_SAVED * sizeof(__u64), regs);
	standing.has_registers = 1;
}

static __always_inline void note_kernel_stack(struct task_struct *task)
{
	long bytes;

	standing.kernel_frames = 0;
	bytes = bpf_get_task_stack(task, standing.kernel, sizeof(standing.kernel), 0);
	if (bytes > 0)
		standing.kernel_frames = bytes / sizeof(__u64);
}

/* Writes a struct standing_thread of each thread of the target. */
SEC("iter/task")
int where_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task || !is_target(task) || task->__state & TASK_NEW)
		return 0;
	standing.task_state = task->__state;
	standing.on_cpu = task->on_cpu;
	standing.switches = task->nvcsw + task->nivcsw;
	standing.jobctl = task->jobctl;
	standing.cpu = task_cpu(task);
	standing.tid = task_id(task, options.pid_level);
	standing.process = options.pid_level ? inner_task_id(BPF_CORE_READ(task, group_leader),
							     options.pid_level)
					     : (__u32)task->tgid;
	standing.own_tid = own_task_id(task);
	standing.is_frozen = is_frozen_by_v1(task, task->__state) || is_frozen_by_v2(task);
	standing.is_throttled = task_is_throttled(task);
	/* The C library sets it once, by a system call or where a thread begins. */
	standing.thread_pointer = task->THREAD_POINTER;
	standing.is_kernel_worker = !!is_kernel_worker(task);
	bpf_probe_read_kernel_str(standing.comm, sizeof(standing.comm), task->comm);
	note_times(task);
	note_kernel_lock(task);
	/* What runs has no stack that stays. */
	if (standing.on_cpu) {
		standing.kernel_frames = 0;
		standing.has_registers = 0;
		standing.syscall = NO_SYSCALL;
	} else {
		note_program(task);
		note_kernel_stack(task);
	}
	bpf_seq_write(ctx->meta->seq, &standing, sizeof(standing));
	return 0;
}
