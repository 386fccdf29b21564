/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Who has the CPU that a thread waits for: each CPU's slices, written only
 * while a thread of the target waits for it. They are read under the lock of
 * its run queue, which all that changes who runs on it holds, and by user space.
 */
#ifndef KERNEL_DELAY_RUN_QUEUE_H
#define KERNEL_DELAY_RUN_QUEUE_H

#include "target.h"
#include "thread.h"

/* include/linux/sched/prio.h */
#define DEFAULT_PRIO 120

/* User space sets the sizes of both: options.cpus, and that times options.slices. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run_queue);
} run_queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slice);
} slices SEC(".maps");

static __always_inline struct run_queue *run_queue_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&run_queues, &cpu);
}

static __always_inline struct slice *slice_at(__u32 cpu, __u64 number)
{
	__u32 slot = cpu * options.slices + ((__u32)number & (options.slices - 1));

	return bpf_map_lookup_elem(&slices, &slot);
}

static __always_inline bool is_waited_for(const struct run_queue *run_queue)
{
	return run_queue->waiting + run_queue->moved != 0;
}

static __always_inline bool cpu_is_waited_for(__u32 cpu)
{
	struct run_queue *run_queue = run_queue_of(cpu);

	return options.accounting && run_queue && is_waited_for(run_queue);
}

/* How many switches there were at that, as it counts them. */
static __always_inline __u64 switches_of(const struct rq *rq)
{
	return has_run_queues() ? rq->nr_switches : 0;
}

static __always_inline bool were_all_seen(__u64 before, __u64 now, __u64 most)
{
	return !before || now - before <= most;
}

/*
 * Notes how many switches there were by @now, and returns whether at most @most
 * of them were not seen since the last look. 0 stands for no look yet.
 */
static __always_inline bool note_switches(struct run_queue *run_queue, __u64 now, __u64 most)
{
	__u64 before = run_queue->switches;

	run_queue->switches = now;
	return were_all_seen(before, now, most);
}

/*
 * Some kernels run no program while a task of one process has the CPU, as a hypervisor's agent in
 * its guest. Then switches to that process are seen, and none from it.
 *
 * A switch of @next, a struct task_struct or 0, was missed: from it, and to others if it was not
 * the only one. Its process is suspected until a switch from it is seen. A task that ended by now
 * says anything, but not often the same. Not static, so that it is verified once, by itself.
 */
__noinline int note_untraced(__u64 next)
{
	__u64 process;

	if (!next)
		return 0;
	process = (__u64)BPF_CORE_READ((struct task_struct *)next, tgid) + 1;
	if (!control.untraced || control.untraced_seen) {
		control.untraced = process;
		control.untraced_switches = 0;
		control.untraced_seen = 0;
	}
	if (control.untraced == process)
		count_up(&control.untraced_switches);
	return 0;
}

/* A switch from @task was seen. */
static __always_inline void see_traced(const struct task_struct *task)
{
	if (task->tgid + 1ull == control.untraced)
		count_up(&control.untraced_seen);
}

/* Of a task that may be gone by now; then it says anything. */
static __always_inline void note_task(struct task_info *info, struct task_struct *task)
{
	info->task = task->pid;
	info->tid = 0;
	info->process = 0;
	info->policy = task->policy;
	info->rt_priority = task->rt_priority;
	info->nice = task->static_prio - DEFAULT_PRIO;
	info->kernel_thread = task->flags / PF_KTHREAD & 1;
	BPF_CORE_READ_INTO(&info->comm, task, comm);
	if (!info->task)
		return;
	if (options.pid_level) {
		info->tid = inner_task_id(task, options.pid_level);
		info->process = inner_task_id(task->group_leader, options.pid_level);
	} else {
		info->tid = info->task;
		info->process = task->tgid;
	}
}

/*
 * The group of @task's cgroup on its CPU, by which it is throttled before 6.18: with all of
 * it that waits (kernel/sched/fair.c:throttle_cfs_rq()). NULL from then on, and of a task that
 * can't be throttled: of each class it has one (kernel/sched/sched.h:set_task_rq(), 5.14 to 6.17).
 */
static __always_inline struct cfs_rq *group_of(struct task_struct *task)
{
	if (throttles_tasks() || !bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(struct cfs_rq, throttle_count) || task->prio < MAX_RT_PRIO)
		return NULL;
	return task->se.cfs_rq;
}

/* How many of its levels are throttled; 0: none. That begins when one of its own leaves the CPU. */
static __always_inline __u32 group_is_throttled(struct task_struct *task)
{
	struct cfs_rq *group = group_of(task);

	return group ? group->throttle_count : 0;
}

/*
 * Has the CPU quota of @task's cgroup, or of one above, been used up, so that it
 * is kept from running? kernel/sched/fair.c:throttle_cfs_rq(), 5.14 to 6.17, and
 * throttle_cfs_rq_work(), from 6.18 on. Nothing shows when that ends: until it gets
 * on a CPU again it counts as throttled.
 */
static __always_inline __u32 is_throttled(struct task_struct *task)
{
	return throttles_tasks() ? is_throttled_itself(task) : group_is_throttled(task);
}

/*
 * How long the current task has had its CPU in one go, at least: the fair class notes what a task
 * has run when it takes one to run (kernel/sched/fair.c:set_next_entity()). 0 where another class
 * has it. Interrupts and steal may be left out. Not static, so that it is verified once, by itself.
 */
__noinline __u64 current_ran_ns(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->prio < MAX_RT_PRIO)
		return 0;
	if (may_be_of_sched_ext(task))
		return 0;
	return task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
}

/* @task had @cpu up to now, and no other since the slice before, if that is @known. */
static __always_inline void end_slice(struct run_queue *run_queue, __u32 cpu,
				      struct task_struct *task, bool known, __u64 now_ns)
{
	__u64 number = run_queue->slices + 1;
	struct slice *slice = slice_at(cpu, number);

	if (!slice)
		return;
	slice->number = number;
	slice->end_ns = now_ns;
	slice->known = known;
	slice->throttled = group_is_throttled(task);
	slice->group = (__u64)group_of(task);
	note_task(&slice->prev, task);
	barrier();
	run_queue->slices = number;
}

/* Up to @end_ns it is not known who had the CPU. */
static __always_inline void end_unknown_slice(struct run_queue *run_queue, __u32 cpu, __u64 end_ns)
{
	__u64 number = run_queue->slices + 1;
	struct slice *slice = slice_at(cpu, number);

	if (!slice)
		return;
	slice->number = number;
	slice->end_ns = end_ns;
	slice->known = false;
	slice->group = 0;
	barrier();
	run_queue->slices = number;
}

/* Where a task is queued, under that run queue's lock: numbers, for functions verified once. */
struct queue_place {
	__u64 group; /* as in struct thread_state */
	__u64 switches; /* of the run queue so far, as it counts them */
	__u32 cpu;
	__u32 throttled;
};

/* @thread waits @at a place from now on. */
static __always_inline void begin_wait(struct thread *thread, const struct queue_place *at)
{
	struct run_queue *run_queue = run_queue_of(at->cpu);

	if (!options.accounting || !run_queue)
		return;
	if (!is_waited_for(run_queue)) {
		note_switches(run_queue, at->switches, 0);
		run_queue->next = 0;
	}
	thread->first_slice = run_queue->slices + 1;
	thread->wait_cpu = at->cpu + 1;
	thread->group = at->group;
	run_queue->waiting++;
}

/*
 * @thread waits no more. Only of the run queue of @cpu the lock is held: of
 * another it may still be said to wait for if a migration was missed.
 */
static __always_inline void end_wait(struct thread *thread, __u32 cpu)
{
	struct run_queue *run_queue;

	if (!options.accounting || !thread->wait_cpu)
		return;
	run_queue = run_queue_of(thread->wait_cpu - 1);
	if (run_queue && thread->wait_cpu == cpu + 1)
		run_queue->waiting--;
	else if (run_queue)
		__sync_fetch_and_add(&run_queue->moved, -1);
	thread->wait_cpu = 0;
}

/*
 * The same without any run queue's lock, once @thread's CPU is known to be @cpu. Its @group
 * there is NULL where that is not known.
 */
static __always_inline void begin_wait_unlocked(struct thread *thread, __u32 cpu,
						struct cfs_rq *group)
{
	struct run_queue *run_queue = run_queue_of(cpu);

	if (!options.accounting || !run_queue)
		return;
	thread->first_slice = *(volatile __u64 *)&run_queue->slices + 1;
	/* Without the lock it is not known which switch is the next that can be seen. */
	if (!is_waited_for(run_queue))
		run_queue->switches = 0;
	__sync_fetch_and_add(&run_queue->moved, 1);
	thread->wait_cpu = cpu + 1;
	thread->group = (__u64)group;
}

/*
 * What the kernel itself has counted of a thread, since it was made.
 */

/*
 * What the hypervisor took of a thread's time on its CPU. The kernel brings each
 * run queue's count up to date whenever it looks at that queue's clock, which a
 * switch and a tick do (kernel/sched/core.c:update_rq_clock_task(), 5.14 to 6.18).
 */

static __always_inline bool has_steal_clock(void)
{
	return bpf_core_field_exists(struct rq, prev_steal_time_rq);
}

/* Of the CPU of @rq, and 1; 0 where that is not known. */
static __always_inline __u64 steal_count(const struct rq *rq)
{
	return has_run_queues() ? rq->prev_steal_time_rq + 1 : 0;
}

/* @task, of @thread, got on a CPU. */
static __always_inline void begin_steal(struct thread *thread, const struct rq *rq)
{
	if (options.accounting && has_steal_clock())
		thread->steal_since = steal_count(rq);
}

/* @task, of @thread, leaves its CPU. */
static __always_inline void end_steal(struct thread *thread, const struct rq *rq)
{
	__u64 now;

	if (!options.accounting || !has_steal_clock() || !thread->steal_since)
		return;
	now = steal_count(rq);
	if (now > thread->steal_since)
		thread->steal_ns += now - thread->steal_since;
	thread->steal_since = 0;
}

/*
 * What was stolen of the time of @thread, whose @task is in @rq, until now. One that was found on
 * its CPU counts from here on.
 */
static __always_inline __u64 steal_until_now(struct thread *thread, struct task_struct *task,
					     const struct rq *rq)
{
	__u64 before, since, now;

	if (!options.accounting || !has_steal_clock())
		return NO_STEAL_CLOCK;
	before = *(volatile __u64 *)&thread->steal_ns;
	if (!task->on_cpu)
		return before;
	now = steal_count(rq);
	since = __sync_val_compare_and_swap(&thread->steal_since, 0, now);
	return before + (length_since(now, since) & ~mask_if_same(since, 0));
}

/* Of @thread, whose @task is in @rq. */
static __always_inline void note_task_times(struct task_times *times, struct thread *thread,
					    struct task_struct *task, const struct rq *rq)
{
	times->user_ns = task->utime;
	times->system_ns = task->stime;
	times->minor_faults = task->min_flt;
	times->major_faults = task->maj_flt;
	times->migrations = task->se.nr_migrations;
	times->steal_ns = steal_until_now(thread, task, rq);
}

/* The same of the current task's @thread. */
static __always_inline void note_own_times(struct task_times *times, struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();

	note_task_times(times, thread, task, kernel_run_queue(task));
}

#endif
