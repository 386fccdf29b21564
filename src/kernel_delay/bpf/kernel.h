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

struct super_block {
	__u32 s_dev; /* dev_t */
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__u32 i_rdev;
};

struct file {
	struct inode *f_inode;
	void *private_data; /* of an epoll descriptor, its struct eventpoll */
};

struct list_head {
	struct list_head *prev;
};

/* fs/eventpoll.c */
struct eventpoll {
	struct list_head rdllist; /* of struct epitem, those that are ready */
	struct file *file;
};

struct epoll_filefd {
	struct file *file;
	int fd;
};

struct epitem {
	struct list_head rdllink;
	struct epoll_filefd ffd;
	struct eventpoll *ep;
};

struct userfaultfd_ctx;

struct vm_userfaultfd_ctx {
	struct userfaultfd_ctx *ctx;
};

struct vm_area_struct {
	unsigned long vm_end;
	struct file *vm_file;
	struct vm_userfaultfd_ctx vm_userfaultfd_ctx;
};

struct fdtable {
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct seccomp {
	int mode;
};

/* kernel/sched/sched.h; all of it, or none, is there as CONFIG_FAIR_GROUP_SCHED is. */
struct rq {
	struct task_struct *curr;
	__u64 nr_switches;
	__u64 clock;
	__u64 clock_task;
	__u64 prev_steal_time_rq; /* CONFIG_PARAVIRT_TIME_ACCOUNTING */
	int cpu;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count; /* of those above it and it, how many are throttled */
};

struct sched_entity {
	__u64 nr_migrations;
	__u64 exec_start;
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

/* CONFIG_SCHED_INFO */
struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct signal_struct {
	struct sigpending shared_pending;
	int group_stop_count;
	unsigned int flags;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	unsigned int ptrace;
	unsigned int on_cpu; /* int in 6.18, u8 in 7.2: libbpf fits only an unsigned load */
	unsigned long jobctl;
	int prio;
	int static_prio;
	struct sched_entity se;
	unsigned int rt_priority;
	unsigned int policy;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *parent; /* of one that is traced, who traces it */
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct mm_struct *mm;
	struct files_struct *files;
	struct signal_struct *signal;
	sigset_t blocked;
	struct sigpending pending;
	struct seccomp seccomp;
	struct sched_info sched_info;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_time;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct thread_struct thread;
	char comm[16];
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

struct irqaction {
	const char *name;
};

struct sigaction {
	void (*sa_handler)(int);
};

struct k_sigaction {
	struct sigaction sa;
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
};

#pragma clang attribute pop

/* Of struct pt_regs: how many words, and which of them; and where the thread pointer is. */
#if defined(__TARGET_ARCH_x86)
#define REGISTERS_SAVED 21
#define INSTRUCTION_POINTER 16
#define STACK_POINTER 19
#define FRAME_POINTER 4
#define THREAD_POINTER thread.fsbase
#elif defined(__TARGET_ARCH_arm64)
#define REGISTERS_SAVED 33
#define INSTRUCTION_POINTER 32
#define STACK_POINTER 31
#define FRAME_POINTER 29
#define THREAD_POINTER thread.uw.tp_value
#endif

/* include/linux/sched.h, the same from 5.14 to 6.18 */
#define TASK_RUNNING 0x0000
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_NORMAL 0x0003
#define __TASK_STOPPED 0x0004
#define __TASK_TRACED 0x0008
#define TASK_DEAD 0x0080
#define TASK_NEW 0x0800

/* signal_struct.flags, include/linux/sched/signal.h, 5.14 to 6.18: a signal stopped all threads. */
#define SIGNAL_STOP_STOPPED 0x00000001

/* include/linux/sched/jobctl.h, 5.14 to 6.18: the freezer of cgroup v2 */
#define JOBCTL_TRAP_FREEZE (1 << 23)
/* STOP_PENDING, TRAP_STOP, TRAP_NOTIFY and that. */
#define JOBCTL_PENDING (1 << 17 | 1 << 19 | 1 << 20 | JOBCTL_TRAP_FREEZE)

/*
 * Of mm_struct.flags, include/linux/sched/coredump.h (5.14), mm_types.h (6.18): set with the
 * first uprobe; and since one was taken out, until the kernel has looked whether any is left.
 */
#define MMF_HAS_UPROBES (1 << 19)
#define MMF_RECALC_UPROBES (1 << 20)

/* include/linux/sched.h, 5.14 to 6.18: it ends; a signal ended it, its own or one of its process.
 */
#define PF_EXITING 0x00000004
#define PF_SIGNALED 0x00000400

/*
 * How long it is since @since_ns. On another CPU the clock may be a few nanoseconds
 * behind (kernel/time/timekeeping.c:ktime_get_mono_fast_ns()): then the length is 0.
 * @since_ns may be NEVER_NS.
 *
 * Without a branch, of which the verifier would follow both ways to the program's end. The compiler
 * must not know what the sign stands for.
 */
static __always_inline __u64 length_since(__u64 now_ns, __u64 since_ns)
{
	__u64 length_ns = now_ns - since_ns;
	__u64 is_before = (length_ns | since_ns) >> 63;

	barrier_var(is_before);
	return length_ns & (is_before - 1);
}

/* All bits if @value is @other, and else none: as above, for what else a branch would choose. */
static __always_inline __u64 mask_if_same(__u64 value, __u64 other)
{
	__u64 difference = value ^ other;
	__u64 differs = (difference | (0 - difference)) >> 63;

	barrier_var(differs);
	return differs - 1;
}

/* A thread's id as a tool sees it that is in a PID namespace of its own. */

/*
 * The id of @task in the PID namespace at @level, above 0: of the numbers of a struct
 * pid, one a level of nesting, the one at that level. 0 if it is not there.
 */
static __always_inline __u32 inner_task_id(struct task_struct *task, __u32 level)
{
	struct upid upid = {};
	struct pid *pid;
	void *numbers;

	pid = BPF_CORE_READ(task, thread_pid);
	if (BPF_CORE_READ(pid, level) < level)
		return 0;
	numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	bpf_probe_read_kernel(&upid, sizeof(upid), numbers + level * sizeof(upid));
	return upid.nr;
}

static __always_inline __u32 task_id(struct task_struct *task, __u32 level)
{
	return level ? inner_task_id(task, level) : (__u32)task->pid;
}

/* As @task itself sees it, and so what is in the futexes that it owns. */
static __always_inline __u32 own_task_id(struct task_struct *task)
{
	return task_id(task, BPF_CORE_READ(task, thread_pid, level));
}

#endif
