/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Which processes are measured, which system call a thread makes, in which context the kernel
 * works for it, and who stops it.
 */
#ifndef KERNEL_DELAY_TARGET_H
#define KERNEL_DELAY_TARGET_H

#include "compat.h"
#include "kernel.h"
#include "thread_records.h"
#include "window.h"

/*
 * The targets where they are several, or come and go: a bit for each number that a process can
 * have. To find one takes no search and no call, so that many cost no more than two. User space
 * sets those that are there at first.
 */
__u64 targets[TARGET_WORDS];

static __always_inline __u64 *process_word(__u64 *words, __u32 tgid)
{
	return &words[tgid / 64 & (TARGET_WORDS - 1)];
}

static __always_inline bool is_marked(__u64 *words, __u32 tgid)
{
	return *process_word(words, tgid) >> (tgid % 64) & 1;
}

static __always_inline void mark_process(__u64 *words, __u32 tgid)
{
	__sync_fetch_and_or(process_word(words, tgid), 1ull << (tgid % 64));
}

/* The number is another process's from now on. */
static __always_inline void unmark_process(__u64 *words, __u32 tgid)
{
	__sync_fetch_and_and(process_word(words, tgid), ~(1ull << (tgid % 64)));
}

static __always_inline bool is_target(const struct task_struct *task)
{
	__u32 tgid = task->tgid;

	/* A constant to the verifier: with one target there is nothing below this. */
	if (options.tgid)
		return tgid == options.tgid;
	return is_marked(targets, tgid);
}

static __always_inline bool is_process(const struct task_struct *task)
{
	return task->pid == task->tgid;
}

/*
 * Which system call a task makes: a number means another call in each of the
 * ABIs that a kernel serves side by side, so a call is known by both.
 */

#if defined(__TARGET_ARCH_x86)
/* arch/x86/include/asm/thread_info.h, the same from 5.14 to 6.18: set from entry to exit. */
#define TS_COMPAT 0x0002
/* arch/x86/include/uapi/asm/unistd.h: x32 calls have it in their numbers. */
#define X32_SYSCALL_BIT 0x40000000
#elif defined(__TARGET_ARCH_arm64)
/* arch/arm64/include/asm/thread_info.h, the same from 5.14 to 6.18: set while a program is 32-bit.
 */
#define TIF_32BIT 22
#define X32_SYSCALL_BIT 0
#endif

/* Does @task make 32-bit calls, or is it in one? As in_compat_syscall(), but without x32. */
static __always_inline bool in_compat(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return bpf_core_field_exists(task->thread_info.status) &&
	       task->thread_info.status & TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	return task->thread_info.flags >> TIF_32BIT & 1;
#endif
}

/* The call of that @number which @task makes, as the records have it. */
static __always_inline __u64 syscall_id(struct task_struct *task, __u32 number)
{
	return in_compat(task) ? COMPAT_SYSCALL | number : number;
}

/* The number that @task came into the kernel with, negative unless for a syscall. */
static __always_inline __s32 syscall_number(struct pt_regs___syscall *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	return regs->syscallno;
#endif
}

static __always_inline __u32 first_argument(const struct pt_regs___syscall *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->di;
#elif defined(__TARGET_ARCH_arm64)
	return regs->regs[0];
#endif
}

/* Is the call of the 32-bit ABI? 1 or 0. */
static __always_inline __u32 is_compat(__u64 syscall)
{
	return syscall / COMPAT_SYSCALL & 1;
}

/* Where the flags of a call are in its table. Without a branch, as length_since(). */
static __always_inline __u32 flags_place(__u64 syscall)
{
	return syscall & ~(X32_SYSCALL_BIT & (is_compat(syscall) - 1));
}

/* The enum syscall_flag of a call; none if its number has no slot. */
static __always_inline __u8 syscall_flags(__u64 syscall)
{
	__u32 number = flags_place(syscall);

	if (number >= FLAGGED_SYSCALLS)
		return 0;
	/* Old verifiers forget the test for a copy; the compiler must not leave out the mask. */
	barrier_var(number);
	return options.syscall_flags[is_compat(syscall)][number & (FLAGGED_SYSCALLS - 1)];
}

/* Which of all slots of both tables is the call's, if it has one. */
static __always_inline __u32 syscall_slot(__u64 syscall)
{
	return is_compat(syscall) * FLAGGED_SYSCALLS +
	       (flags_place(syscall) & (FLAGGED_SYSCALLS - 1));
}

/* Has the call a slot for flags? */
static __always_inline bool is_flagged(__u64 syscall)
{
	return flags_place(syscall) < FLAGGED_SYSCALLS;
}

/*
 * In which context a waker is: a thread's own, or an interrupt's.
 */

/* include/linux/sched.h */
#define PF_KTHREAD 0x00200000

/* libbpf resolves this at load time: no branch is left, as a look at a pointer would leave. */
static __always_inline bool has_run_queues(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->se.cfs_rq);
}

/*
 * The kernel's own that @task is in, or would be, whatever its policy; NULL
 * without CONFIG_FAIR_GROUP_SCHED (kernel/sched/sched.h:set_task_rq(), 5.14 to
 * 6.18). A switch changes it before its tracepoint, and keeps its lock till after.
 *
 * Once a program, and before its ways part: wherever the verifier comes by a pointer that is read
 * from what it trusts, it goes through all of the kernel's types by name, up to four times, which
 * takes 1 ms (kernel/bpf/btf.c:btf_nested_type_is_trusted(), 6.4 to 6.18).
 */
static __always_inline struct rq *kernel_run_queue(struct task_struct *task)
{
	return has_run_queues() ? task->se.cfs_rq->rq : NULL;
}

/* include/linux/preempt.h, the same from 5.14 to 6.18: what of it counts which context. */
#define SERVING_SOFT_IRQ 0x00000100
#define HARD_IRQS_AND_NMI 0x00ff0000

#if defined(__TARGET_ARCH_x86)
/*
 * The variable that counts the contexts which a CPU is in. The kernel's symbols may have
 * no data: it is found by how far it is behind the CPU's run queue.
 */
static __always_inline bool read_contexts(struct task_struct *current, __u32 *contexts)
{
	struct rq *rq = kernel_run_queue(current);
	void *address = (void *)rq + options.contexts_distance;

	if (!has_run_queues() || !options.contexts_distance ||
	    (__u32)rq->cpu != bpf_get_smp_processor_id())
		return false;
	return !bpf_probe_read_kernel(contexts, sizeof(*contexts), address);
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline bool read_contexts(struct task_struct *current, __u32 *contexts)
{
	*contexts = current->thread_info.preempt_count;
	return true;
}
#endif

/*
 * Is there a signal for @task? Who sends one wakes it, and has no part in what it waits for;
 * kernel/signal.c:complete_signal().
 */
static __always_inline bool has_signal(struct task_struct *task)
{
	__u64 pending = task->pending.signal.sig[0];

	pending |= task->signal->shared_pending.signal.sig[0];
	return pending & ~task->blocked.sig[0];
}

static __always_inline enum waker_kind waker_kind(bool is_signal, struct task_struct *current)
{
	__u32 contexts = 0;

	if (is_signal || !read_contexts(current, &contexts))
		return WAKER_UNKNOWN;
	if (contexts & HARD_IRQS_AND_NMI)
		return WAKER_HARD_IRQ;
	if ((contexts | soft_irqs_of_task(current)) & SERVING_SOFT_IRQ)
		return WAKER_SOFT_IRQ;
	/* The idle task only ever does what an interrupt of another CPU asked it for. */
	return current->pid ? WAKER_THREAD : WAKER_HARD_IRQ;
}

/* The id of @task in the PID namespace that the tool is in, 0 if it is not there. */
static __always_inline __u32 thread_id(struct task_struct *task)
{
	return task_id(task, options.pid_level);
}

/* The id of its process there. */
static __always_inline __u32 process_id(struct task_struct *task)
{
	if (!options.pid_level)
		return task->tgid;
	return inner_task_id(BPF_CORE_READ(task, group_leader), options.pid_level);
}

/*
 * Who stops a process.
 */

/* include/uapi/asm-generic/signal.h: from one to the other all stop a process. */
#define SIGSTOP 19
#define SIGTTOU 22

/* include/uapi/asm-generic/siginfo.h: kill(2), sigqueue(3), tgkill(2) */
#define SI_USER 0
#define SI_QUEUE -1
#define SI_TKILL -6

/*
 * Notes who sent a signal that stops the process, SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU
 * (include/uapi/asm-generic/signal.h): one of its threads takes it, and has all stop. From
 * 6.14 on a program may not follow @info as it may be no pointer (SEND_SIG_PRIV).
 */
static __always_inline void note_stop(struct task_struct *task, __u32 signal,
				      const struct kernel_siginfo *info)
{
	int code = BPF_CORE_READ(info, si_code);
	__u32 sender = 0;

	if (code == SI_USER || code == SI_QUEUE || code == SI_TKILL)
		sender = BPF_CORE_READ(info, _sifields._kill._pid);
	if (control.stop_signal && (control.stop_signal != signal || control.stop_sender != sender))
		control.other_stops_ns = bpf_ktime_get_ns();
	control.stop_sender = sender;
	control.stop_process = process_id(task);
	control.stop_signal = signal;
}

/* @task stops: by a signal, until SIGCONT; or until its tracer resumes it; or both (ptrace(2)). */
static __always_inline void note_stopped(struct task_struct *task, __u64 now_ns)
{
	struct task_struct *tracer;

	if (task->__state & __TASK_STOPPED || BPF_CORE_READ(task, signal, group_stop_count) ||
	    BPF_CORE_READ(task, signal, flags) & SIGNAL_STOP_STOPPED)
		control.signal_stop_ns = now_ns;
	if (!(task->__state & __TASK_TRACED))
		return;
	tracer = BPF_CORE_READ(task, parent);
	control.tracer = options.pid_level ? inner_task_id(BPF_CORE_READ(tracer, group_leader),
							   options.pid_level)
					   : BPF_CORE_READ(tracer, tgid);
	bpf_probe_read_kernel_str(control.tracer_comm, sizeof(control.tracer_comm), tracer->comm);
	control.traced = process_id(task);
	control.tracer_stop_ns = now_ns;
}

#endif
