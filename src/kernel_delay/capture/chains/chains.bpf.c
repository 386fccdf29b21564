// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The threads of followed processes: each change of their states, and who woke them. User space
 * makes wait chains of that. It is a program of its own, so that nobody pays for it who does not
 * ask for chains.
 */
#include "target.h"
#include "chain_records.h"
#include "compat.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} events SEC(".maps");

/* Events that found no room. */
__u64 missed_events SEC(".data.missed");

static __always_inline struct chain_event *begin_event(struct task_struct *task, __u32 kind)
{
	struct chain_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		count_up(&missed_events);
		return NULL;
	}
	event->now_ns = bpf_ktime_get_ns();
	event->kind = kind;
	event->tid = task_id(task, options.pid_level);
	event->process = task_id(task->group_leader, options.pid_level);
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
	event->frames[0] = 0;
	BPF_CORE_READ_INTO(&event->comm, task, comm);
	return event;
}

static __always_inline void note_other(struct chain_event *event, struct task_struct *other)
{
	event->waker = task_id(other, options.pid_level);
	event->waker_process = task_id(other->group_leader, options.pid_level);
	BPF_CORE_READ_INTO(&event->waker_comm, other, comm);
}

/* Where the current task, which is about to sleep, does so, and on which file. */
static __always_inline void note_place(struct chain_event *event, struct task_struct *current,
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

static __always_inline __u32 state_after(struct task_struct *prev, bool preempt)
{
	unsigned int task_state = prev->__state;

	if (preempt || task_state == TASK_RUNNING)
		return task_is_throttled(prev) ? STATE_THROTTLED : STATE_READY_PREEMPTED;
	if (task_state & (__TASK_STOPPED | __TASK_TRACED))
		return STATE_STOPPED;
	if (task_state & TASK_DEAD)
		return STATE_NOT_ALIVE;
	if (is_frozen_by_v1(prev, task_state) || is_frozen_by_v2(prev))
		return STATE_FROZEN;
	return STATE_BLOCKED;
}

/* Reports what each thread does that is there when its process begins to be followed. */
SEC("iter/task")
int note_states(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task, *running;
	struct chain_event *event;

	if (!task || !is_target(task) || !(event = begin_event(task, CHAIN_SEEN)))
		return 0;
	event->state = task->on_cpu ? STATE_RUNNING : state_after(task, false);
	if (event->state == STATE_READY_PREEMPTED && has_run_queues()) {
		running = kernel_run_queue(task)->curr;
		/* Whoever asks has a CPU too. */
		if (running && running->pid && running != bpf_get_current_task_btf())
			note_other(event, running);
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct chain_event *event;

	if (is_target(prev) && prev->pid && (event = begin_event(prev, CHAIN_LEFT_CPU))) {
		event->state = state_after(prev, preempt);
		if (event->state == STATE_BLOCKED)
			note_place(event, prev, ctx);
		else if (event->state == STATE_READY_PREEMPTED && next->pid)
			note_other(event, next);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
	if (is_target(next) && next->pid && (event = begin_event(next, CHAIN_GOT_CPU))) {
		event->state = STATE_RUNNING;
		if (prev->pid)
			note_other(event, prev);
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct task_struct *current, *running;
	struct chain_event *event;

	if (!is_target(task) || !(event = begin_event(task, CHAIN_WOKEN)))
		return 0;
	current = bpf_get_current_task_btf();
	if (has_run_queues()) {
		running = kernel_run_queue(task)->curr;
		event->running = running ? task_id(running, options.pid_level) : 0;
	}
	event->state =
		!throttles_tasks() && task_is_throttled(task) ? STATE_THROTTLED : STATE_READY_WOKEN;
	event->waker_kind = waker_kind(has_signal(task), current);
	note_other(event, current);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* include/uapi/asm-generic/signal.h */
#define SIGSTOP 19
#define SIGTTOU 22

/* Whoever was stopped before it was followed is to have been stopped by someone. */
SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int signal, struct kernel_siginfo *info, struct task_struct *task)
{
	struct chain_event *event;

	if (signal < SIGSTOP || signal > SIGTTOU || !(event = begin_event(task, CHAIN_SIGNALLED)))
		return 0;
	event->state = 0;
	note_other(event, bpf_get_current_task_btf());
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}
