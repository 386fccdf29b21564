/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The threads of followed processes: each change of their states, and who woke them. User space
 * makes wait chains of that.
 *
 * Capture's programs do it, and none beside them: each further program at a switch costs all tasks
 * more than the look whether one is followed. Without options.chains nothing of it is loaded.
 */
#ifndef KERNEL_DELAY_CHAINS_H
#define KERNEL_DELAY_CHAINS_H

#include "switch.h"
#include "chain_records.h"

/* These maps are created only where chains are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} chain_events SEC(".maps");

/* A bit for each number that a process can have, as in targets. User space sets them, and clears.
 */
struct followed {
	__u64 words[TARGET_WORDS];
	__u64 without_forks; /* 1: what these fork is not followed, there are too many */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct followed);
} followed SEC(".maps");

/* All that are followed; NULL where there are no chains. */
static __always_inline struct followed *find_followed(void)
{
	__u32 only = 0;

	return options.chains ? bpf_map_lookup_elem(&followed, &only) : NULL;
}

static __always_inline bool is_followed(struct followed *followed, const struct task_struct *task)
{
	return is_marked(followed->words, task->tgid);
}

static __always_inline struct chain_event *begin_chain_event(struct task_struct *task, __u32 kind)
{
	struct chain_event *event = bpf_ringbuf_reserve(&chain_events, sizeof(*event), 0);

	if (!event) {
		count_up(&control.missed_chain_events);
		return NULL;
	}
	event->now_ns = bpf_ktime_get_ns();
	event->kind = kind;
	event->tid = task_id(task, options.pid_level);
	event->process = task_id(task->group_leader, options.pid_level);
	event->tgid = task->tgid;
	/* __schedule() counts before its tracepoint: with an event of leaving, that one too. */
	event->switches = task->nvcsw + task->nivcsw;
	event->waker = 0;
	event->waker_process = 0;
	event->waker_kind = WAKER_UNKNOWN;
	event->running = 0;
	event->syscall = -1;
	event->descriptor = 0;
	event->inode = 0;
	event->device = 0;
	event->ended_child = 0;
	event->was_frozen = 0;
	event->frames[0] = 0;
	BPF_CORE_READ_INTO(&event->comm, task, comm);
	return event;
}

static __always_inline void note_other_task(struct chain_event *event, struct task_struct *other)
{
	event->waker = task_id(other, options.pid_level);
	event->waker_process = task_id(other->group_leader, options.pid_level);
	BPF_CORE_READ_INTO(&event->waker_comm, other, comm);
}

/* Where the current task, which is about to sleep, does so, and on which file. */
static __always_inline void note_sleep_place(struct chain_event *event, struct task_struct *current,
					     void *context)
{
	struct pt_regs___syscall *regs;
	struct file *file = NULL;
	long bytes;

	bytes = bpf_get_stack(context, event->frames, sizeof(event->frames), 0);
	if (bytes < 0)
		bytes = 0;
	if (bytes < (long)sizeof(event->frames))
		event->frames[(bytes / 8) & (CHAIN_FRAMES - 1)] = 0;
	if (!HAS_TASK_PT_REGS || in_compat(current) || current->flags & PF_KTHREAD)
		return;
	regs = (struct pt_regs___syscall *)bpf_task_pt_regs(current);
	event->syscall = syscall_number(regs);
	event->descriptor = first_argument(regs);
	bpf_probe_read_kernel(&file, sizeof(file),
			      BPF_CORE_READ(current, files, fdt, fd) + event->descriptor);
	event->inode = BPF_CORE_READ(file, f_inode, i_ino);
	event->device = BPF_CORE_READ(file, f_inode, i_rdev);
	if (!event->device)
		event->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
}

/* Reports what each thread does that is there when its process begins to be followed. */
SEC("?iter/task")
int report_followed(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task, *running;
	struct followed *followed = find_followed();
	struct chain_event *event;

	if (!task || !followed || !is_followed(followed, task) ||
	    !(event = begin_chain_event(task, CHAIN_SEEN)))
		return 0;
	event->state = task->on_cpu ? STATE_RUNNING : state_of(task, false);
	if (event->state == STATE_READY_PREEMPTED && has_run_queues()) {
		running = kernel_run_queue(task)->curr;
		/* Whoever asks has a CPU too. */
		if (running && running->pid && running != bpf_get_current_task_btf())
			note_other_task(event, running);
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void report_switch(void *context, bool preempt, struct task_struct *prev,
					  struct task_struct *next)
{
	struct followed *followed = find_followed();
	struct chain_event *event;

	if (!followed)
		return;
	if (is_followed(followed, prev) && prev->pid &&
	    (event = begin_chain_event(prev, CHAIN_LEFT_CPU))) {
		event->state = state_of(prev, preempt);
		if (event->state == STATE_BLOCKED)
			note_sleep_place(event, prev, context);
		else if (event->state == STATE_READY_PREEMPTED && next->pid)
			note_other_task(event, next);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
	if (is_followed(followed, next) && next->pid &&
	    (event = begin_chain_event(next, CHAIN_GOT_CPU))) {
		event->state = STATE_RUNNING;
		if (prev->pid)
			note_other_task(event, prev);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
}

/*
 * @task is new, and does not run yet. If its parent is followed, so is it: it may be gone before
 * user space looks. Else nobody of its number is, which was another's before.
 */
static __always_inline void follow_forked(struct task_struct *task)
{
	struct followed *followed = find_followed();
	struct task_struct *current;
	struct chain_event *event;

	if (!followed || !is_process(task))
		return;
	current = bpf_get_current_task_btf();
	if (!is_followed(followed, current) || followed->without_forks ||
	    !(event = begin_chain_event(task, CHAIN_FORKED))) {
		unmark_process(followed->words, task->tgid);
		return;
	}
	event->state = STATE_READY_WOKEN;
	note_other_task(event, current);
	/* Before user space, which may not want it, has the event. */
	mark_process(followed->words, task->tgid);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/*
 * The number that @task knows @current by, a child of its process, if that ends; or 0. The end
 * wakes by a signal if SIGCHLD has a handler (kernel/exit.c:exit_notify(), 5.14 to 6.18).
 */
static __always_inline __u32 ended_child(struct task_struct *current, struct task_struct *task)
{
	if (!(current->flags & PF_EXITING) ||
	    BPF_CORE_READ(current, real_parent, tgid) != task->tgid)
		return 0;
	return task_id(current, BPF_CORE_READ(task, thread_pid, level));
}

/* @task is about to be woken. */
static __always_inline void report_waking(struct task_struct *task)
{
	struct followed *followed = find_followed();
	struct task_struct *current, *running;
	struct chain_event *event;

	if (!followed || !is_followed(followed, task) ||
	    !(event = begin_chain_event(task, CHAIN_WOKEN)))
		return;
	current = bpf_get_current_task_btf();
	if (has_run_queues()) {
		running = kernel_run_queue(task)->curr;
		event->running = running ? task_id(running, options.pid_level) : 0;
	}
	event->state =
		!throttles_tasks() && task_is_throttled(task) ? STATE_THROTTLED : STATE_READY_WOKEN;
	event->waker_kind = waker_kind(has_signal(task), current);
	event->ended_child = ended_child(current, task);
	event->was_frozen = is_frozen_by_v1(task, task->__state);
	note_other_task(event, current);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* Whoever was stopped before it was followed is to have been stopped by someone. */
SEC("?tp_btf/signal_generate")
int BPF_PROG(on_signal_generate, int signal, struct kernel_siginfo *info, struct task_struct *task)
{
	struct chain_event *event;

	if (signal < SIGSTOP || signal > SIGTTOU ||
	    !(event = begin_chain_event(task, CHAIN_SIGNALLED)))
		return 0;
	event->state = 0;
	note_other_task(event, bpf_get_current_task_btf());
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
