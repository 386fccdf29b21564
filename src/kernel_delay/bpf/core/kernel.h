/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The few fields of kernel types that the programs read.
 *
 * preserve_access_index makes each access a CO-RE relocation, so the offsets
 * here mean nothing: libbpf sets them from the running kernel's BTF.
 */
#ifndef KERNEL_DELAY_KERNEL_H
#define KERNEL_DELAY_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mm_struct {
	unsigned long start_stack;
	unsigned long flags;
};

/* From 6.18 on. */
struct mm_struct___bitmap {
	struct {
		unsigned long __mm_flags[1];
	} flags;
};

struct thread_struct {
#if defined(__TARGET_ARCH_x86)
	unsigned long fsbase;
#elif defined(__TARGET_ARCH_arm64)
	struct {
		unsigned long tp_value;
	} uw;
#endif
};

struct thread_info {
#if defined(__TARGET_ARCH_x86)
	unsigned int status;
#elif defined(__TARGET_ARCH_arm64)
	unsigned long flags;
	__u64 preempt_count; /* of which the lower half is the count */
#endif
	unsigned int cpu;
};

struct seccomp {
	int mode;
};

/* kernel/sched/sched.h; all of it, or none, is there as CONFIG_FAIR_GROUP_SCHED is. */
struct rq {
	struct task_struct *curr;
	__u64 nr_switches;
	int cpu;
};

/* CONFIG_PARAVIRT_TIME_ACCOUNTING */
struct rq___stolen {
	__u64 prev_steal_time_rq;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count; /* of those above it and it, how many are throttled */
};

struct sched_entity {
	__u64 nr_migrations;
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

/* CONFIG_SCHED_INFO */
struct sched_info {
	unsigned long long run_delay;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	struct sigpending shared_pending;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	unsigned int ptrace;
	unsigned int on_cpu; /* int in 6.18, u8 in 7.2: libbpf fits only an unsigned load */
	unsigned long jobctl;
	int static_prio;
	struct sched_entity se;
	unsigned int rt_priority;
	unsigned int policy;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct mm_struct *mm;
	struct signal_struct *signal;
	sigset_t blocked;
	struct sigpending pending;
	struct seccomp seccomp;
	struct sched_info sched_info;
	__u64 utime;
	__u64 stime;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct thread_struct thread;
	char comm[16];
};

/* With PREEMPT_RT alone (include/linux/sched.h, 5.14 to 6.18). */
struct task_struct___rt {
	int softirq_disable_cnt;
};

/* From 6.18 on tasks are throttled one by one, on their way to their program. */
struct task_struct___throttled {
	bool throttled;
};

/* include/uapi/asm-generic/siginfo.h; the pid is there if a process sent it */
union __sifields {
	struct {
		int _pid;
	} _kill;
};

struct kernel_siginfo {
	int si_signo;
	int si_code;
	union __sifields _sifields;
};

/* CONFIG_CGROUPS */
struct task_struct___frozen {
	unsigned int frozen : 1;
};

/* Before 5.16 it was not in thread_info on x86 (commit bcf9033e5449). */
struct task_struct___own_cpu {
	unsigned int cpu;
};

struct irqaction {
	const char *name;
};

struct kernel_clone_args {
	unsigned int user_worker : 1;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs___syscall {
	unsigned long bx, cx, dx, si, di, r10;
	unsigned long orig_ax; /* syscall number, below 0 outside of one */
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs___syscall {
	__u64 regs[31];
	int syscallno; /* NO_SYSCALL, -1, outside of one */
};
#endif

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
};

#pragma clang attribute pop

/* include/linux/sched.h, the same from 5.14 to 6.18 */
#define TASK_RUNNING 0x0000
#define TASK_UNINTERRUPTIBLE 0x0002
#define __TASK_STOPPED 0x0004
#define __TASK_TRACED 0x0008
#define TASK_DEAD 0x0080
#define TASK_NEW 0x0800
#define TASK_FROZEN 0x8000 /* from 6.1 on */

/* include/linux/sched.h: of task_struct.flags; before 6.1 what the freezer of cgroup v1 set */
#define PF_FROZEN 0x00010000

/* include/linux/sched/jobctl.h, 5.14 to 6.18: the freezer of cgroup v2 */
#define JOBCTL_TRAP_FREEZE (1 << 23)

/*
 * Of mm_struct.flags, include/linux/sched/coredump.h (5.14), mm_types.h (6.18): set with the
 * first uprobe; and since one was taken out, until the kernel has looked whether any is left.
 */
#define MMF_HAS_UPROBES (1 << 19)
#define MMF_RECALC_UPROBES (1 << 20)

/* include/linux/sched.h, from 5.12 and from 6.4 on, the same to 6.18 */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000

/* The same, 5.14 to 6.18: a signal ended it, its own or one of its process. */
#define PF_SIGNALED 0x00000400

extern int LINUX_KERNEL_VERSION __kconfig;

/* kernel/bpf/helpers.c, from 6.10 on, and from 6.14 on. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

/*
 * Whether a program can be preempted and be kept from it: a tracepoint's can only
 * from 7.0 on, one of fentry on any. Before 6.15 the verifier refuses a program
 * that calls functions which are not static with preemption off (kernel/bpf/
 * verifier.c:check_func_call(), 6.12).
 */
#define BY_TRACEPOINT (LINUX_KERNEL_VERSION >= KERNEL_VERSION(7, 0, 0))
#define BY_FENTRY (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 15, 0))

/*
 * Keeps a program of the thread's own, if it can be @preempted, on the CPU
 * between its look at the clock and what it notes then.
 */
static __always_inline void stay_on_cpu(bool preempted)
{
	if (preempted && bpf_preempt_disable && bpf_preempt_enable)
		bpf_preempt_disable();
}

/*
 * Whoever waits for the CPU by now gets it when the program is over, and not
 * here: until the thread was back, the program would not be run for any other
 * on this CPU. Preemption that is enabled with interrupts off is not made up for
 * when these are on again (kernel/sched/core.c:preempt_schedule(), 7.2).
 */
static __always_inline void end_stay_on_cpu(bool preempted)
{
	unsigned long flags;

	if (!preempted || !bpf_preempt_disable || !bpf_preempt_enable)
		return;
	if (!bpf_local_irq_save || !bpf_local_irq_restore) {
		bpf_preempt_enable();
		return;
	}
	bpf_local_irq_save(&flags);
	bpf_preempt_enable();
	bpf_local_irq_restore(&flags);
}

#endif
