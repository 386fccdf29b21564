/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * In what the kernels differ from Linux 5.14 to 7.2: each difference with the commit that made it.
 * It is found by a type, a field, an enum value or a kfunc, never by a version number, as
 * distributions take commits into older kernels.
 */
#ifndef KERNEL_DELAY_COMPAT_H
#define KERNEL_DELAY_COMPAT_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* 6.18, commit bb6525f2f8c4: more flags than a word has. */
struct mm_struct___bitmap {
	struct {
		unsigned long __mm_flags[1];
	} flags;
};

/* 6.12, commit f0e1a0643a59. */
struct sched_ext_entity {
	__u32 flags; /* not 0 once a scheduler of sched_ext has been loaded */
};

/* What not each kernel has of it. Each flavor of a type has libbpf go through all of the kernel's.
 */
struct task_struct___compat {
	int softirq_disable_cnt; /* with PREEMPT_RT alone; 5.13, commit 8b1c04acad08 */
	/* 6.18, commit 2cd571245b43: tasks are throttled one by one, on their way to their program
	 */
	bool throttled;
	unsigned int frozen : 1; /* CONFIG_CGROUPS; 5.2, commit 76f969e8948d */
	struct sched_ext_entity scx; /* CONFIG_SCHED_CLASS_EXT; see above */
	/* CONFIG_DETECT_HUNG_TASK_BLOCKER; 6.16, commit e711faaafbe5: the lock that it waits for */
	unsigned long blocker;
	unsigned int cpu; /* until 5.16, commit bcf9033e5449, it was not in thread_info on x86 */
};

/* 6.4, commit 54e6842d0775. */
struct kernel_clone_args {
	unsigned int user_worker : 1;
};

/* CONFIG_DETECT_HUNG_TASK_BLOCKER; 6.16, commit 194a9b9e843b. */
struct semaphore {
	unsigned long last_holder;
};

#pragma clang attribute pop

/* 6.1, commit f5d39b020809: the freezer of cgroup v1 has a state; before, it set a flag. */
#define TASK_FROZEN 0x8000
#define PF_FROZEN 0x00010000

/* 5.12, commit cc440e8738e5; and 6.4, commit 54e6842d0775, before which it meant something else. */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000

/* 5.15, commit dd6e10fbd9fb. */
#define HAS_TASK_PT_REGS bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)

/* 5.17, commit e6f2dd0f8067. */
#define HAS_LOOP bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop)

/*
 * For REPEAT: @step takes a @type, in which it notes what it finds, and returns whether that was
 * the last step. It is, or calls, a function that is not static, so that it is verified once.
 */
#define STEP(step, type)                                                                           \
	static long step##_again(__u32 unused, type *context)                                      \
	{                                                                                          \
		return !!step(context);                                                            \
	}

/* Has @step run until the last step, @most times at most. */
#define REPEAT(most, step, context)                                                                \
	do {                                                                                       \
		if (HAS_LOOP) {                                                                    \
			bpf_loop(most, step##_again, context, 0);                                  \
			break;                                                                     \
		}                                                                                  \
		for (int i = 0; i < (most) && !step(context); i++) {                               \
		}                                                                                  \
	} while (0)

/* 5.19, commit 07343110b293. */
#define HAS_MAP_LOOKUP_PERCPU_ELEM                                                                 \
	bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_map_lookup_percpu_elem)

/* Soft IRQs may leave their CPU. */
#define SOFT_IRQS_ARE_PREEMPTED                                                                    \
	bpf_core_field_exists(((struct task_struct___compat *)0)->softirq_disable_cnt)

/* What counts for @task, and not for its CPU, the soft IRQs that it is in (kernel/softirq.c). */
static __always_inline __u32 soft_irqs_of_task(struct task_struct *task)
{
	if (!SOFT_IRQS_ARE_PREEMPTED)
		return 0;
	return ((struct task_struct___compat *)task)->softirq_disable_cnt;
}

/*
 * Did the freezer of cgroup v1 have @task sleep? The flag means something else from 6.14 on, but
 * of a kernel thread alone (commit ce6d9c1c2b5c, include/linux/sched.h:PF_KCOMPACTD).
 */
static __always_inline bool is_frozen_by_v1(struct task_struct *task, unsigned int task_state)
{
	return task_state & TASK_FROZEN || task->flags & PF_FROZEN;
}

/* And that of v2? A task counts as frozen elsewhere too, as in vfork(2), but is not asked to be. */
static __always_inline bool is_frozen_by_v2(struct task_struct *task)
{
	struct task_struct___compat *counted = (void *)task;

	return task->jobctl & JOBCTL_TRAP_FREEZE && bpf_core_field_exists(counted->frozen) &&
	       BPF_CORE_READ_BITFIELD_PROBED(counted, frozen);
}

/* Did the kernel make @task in the process to work for it, as io_uring and vhost have it do? */
static __always_inline bool is_kernel_worker(const struct task_struct *task)
{
	unsigned int workers = PF_IO_WORKER;

	if (bpf_core_field_exists(struct kernel_clone_args, user_worker))
		workers |= PF_USER_WORKER;
	return task->flags & workers;
}

/* The CPU that @task is on, or is queued at. */
static __always_inline __u32 task_cpu(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return BPF_CORE_READ((struct task_struct___compat *)task, cpu);
}

/* Can a scheduler of sched_ext have given @task its CPU? */
static __always_inline bool may_be_of_sched_ext(struct task_struct *task)
{
	struct task_struct___compat *newer = (void *)task;

	return bpf_core_field_exists(newer->scx.flags) && newer->scx.flags;
}

/* Does the kernel note the lock that a task waits for? */
static __always_inline bool has_blocker(void)
{
	return bpf_core_field_exists(((struct task_struct___compat *)0)->blocker);
}

static __always_inline unsigned long task_blocker(struct task_struct *task)
{
	return ((struct task_struct___compat *)task)->blocker;
}

/* Reads a process's flags; false if there are none. */
static __always_inline bool read_mm_flags(const struct mm_struct *mm, unsigned long *flags)
{
	const struct mm_struct___bitmap *newer = (const void *)mm;

	if (bpf_core_field_exists(newer->flags.__mm_flags))
		*flags = BPF_CORE_READ(newer, flags.__mm_flags[0]);
	else if (bpf_core_field_exists(mm->flags))
		*flags = BPF_CORE_READ(mm, flags);
	else
		return false;
	return true;
}

/* Are tasks throttled one by one, and not all of a group's on a CPU at once? */
static __always_inline bool throttles_tasks(void)
{
	return bpf_core_field_exists(((struct task_struct___compat *)0)->throttled);
}

static __always_inline __u32 is_throttled_itself(struct task_struct *task)
{
	return ((struct task_struct___compat *)task)->throttled;
}

/* include/linux/sched/prio.h: those below are of the real-time classes and the deadline class. */
#define MAX_RT_PRIO 100

/*
 * Is it throttled, by itself or with its group on that CPU, as far as its class can be? Read in any
 * context, without locks.
 */
static __always_inline __u32 task_is_throttled(struct task_struct *task)
{
	if (throttles_tasks())
		return is_throttled_itself(task);
	if (!bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, throttle_count) ||
	    BPF_CORE_READ(task, prio) < MAX_RT_PRIO)
		return 0;
	return BPF_CORE_READ(task, se.cfs_rq, throttle_count);
}

/*
 * 6.10, commit fc7566ad0a82, and 6.14, commit c8e2ee1f3df0. Before 5.16 the kernel refuses a
 * program that calls what it has not, even where that is never reached (kernel/bpf/verifier.c:
 * add_kfunc_call(), 5.14): programs that call these are loaded only where they are needed, and
 * user space knows where (loader/features.py).
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

/*
 * Keeps a program of the thread's own, which can be preempted, on the CPU
 * between its look at the clock and what it notes then.
 */
static __always_inline void stay_on_cpu(void)
{
	bpf_preempt_disable();
}

/*
 * Whoever waits for the CPU by now gets it when the program is over, and not
 * here: until the thread was back, the program would not be run for any other
 * on this CPU. Preemption that is enabled with interrupts off is not made up for
 * when these are on again (kernel/sched/core.c:preempt_schedule(), 7.2).
 */
static __always_inline void end_stay_on_cpu(void)
{
	unsigned long flags;

	bpf_local_irq_save(&flags);
	bpf_preempt_enable();
	bpf_local_irq_restore(&flags);
}

#endif
