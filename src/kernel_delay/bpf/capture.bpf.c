// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What the kernel does to each thread of one process: its syscalls, its time
 * on a CPU, waiting for one and stopped, and the interrupts it is charged.
 */
#include "thread.h"
#include "syscall.h"
#include "interrupt.h"
#include "event.h"
#include "trigger.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline bool is_target(const struct task_struct *task)
{
	return (__u32)task->tgid == options.tgid;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	struct moment moment;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (!thread)
		return 0;
	take_moment(&moment);
	enter_syscall(thread, task, number, &moment);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	struct moment moment;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (!thread)
		return 0;
	take_moment(&moment);
	if (thread->syscall != NO_SYSCALL && is_within(&moment, thread->syscall_since_ns) &&
	    is_event(thread->syscall, moment.now_ns - thread->syscall_since_ns))
		report_syscall(ctx, regs, thread, value, &moment);
	leave_syscall(thread, task, &moment);
	return 0;
}

static __always_inline bool is_ready(enum thread_state state)
{
	return state == STATE_READY_WOKEN || state == STATE_READY_PREEMPTED;
}

/*
 * @expected is whether an event fits the one before it. If not, the program
 * was not run on one in between, and what that one began has no known start.
 */
static __always_inline void check_order(const struct thread *thread, bool expected)
{
	if (!expected && thread->state != STATE_UNKNOWN)
		count_up(&control.missed_events);
}

/*
 * @task leaves its CPU. One that is preempted, or that was about to sleep when
 * a signal came (__state is TASK_RUNNING again), can go on: it is ready.
 * kernel/sched/core.c:__schedule(), 5.14 to 6.18.
 */
static __always_inline void leave_cpu(struct task_struct *task, bool preempt)
{
	struct thread *thread = find_thread(task);
	unsigned int task_state = task->__state;
	struct thread_record *record;
	enum thread_state state;
	struct moment moment;

	if (!thread)
		return;
	if (preempt || task_state == TASK_RUNNING)
		state = STATE_READY_PREEMPTED;
	else if (task_state & (__TASK_STOPPED | __TASK_TRACED))
		state = STATE_STOPPED;
	else if (task_state & TASK_DEAD)
		state = STATE_ABSENT;
	else
		state = STATE_BLOCKED;

	take_moment(&moment);
	record = find_record(thread, task, &moment);
	check_order(thread, thread->run_since_ns);
	if (record && is_within(&moment, thread->run_since_ns))
		count_interval(&record->run, &moment, thread->run_since_ns);
	thread->run_since_ns = 0;
	enter_state(thread, state, &moment);
}

static __always_inline void enter_cpu(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct moment moment;

	if (!thread)
		return;
	take_moment(&moment);
	record = find_record(thread, task, &moment);
	check_order(thread, is_ready(thread->state));
	if (record && is_ready(thread->state) && is_within(&moment, thread->since_ns))
		count_interval(&record->ready, &moment, thread->since_ns);
	thread->run_since_ns = moment.now_ns;
	enter_state(thread, thread->syscall == NO_SYSCALL ? STATE_USER : STATE_KERNEL, &moment);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (is_target(prev))
		leave_cpu(prev, preempt);
	if (is_target(next))
		enter_cpu(next);
	return 0;
}

/* @task can run again, if it does not run already: it may be woken before it slept. */
static __always_inline int wake(struct task_struct *task)
{
	struct thread_record *record;
	struct thread *thread;
	struct moment moment;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (!thread)
		return 0;
	if (thread->state == STATE_USER || thread->state == STATE_KERNEL || is_ready(thread->state))
		return 0;
	take_moment(&moment);
	record = find_record(thread, task, &moment);
	if (record && thread->state == STATE_STOPPED && is_within(&moment, thread->since_ns))
		count_interval(&record->stopped, &moment, thread->since_ns);
	enter_state(thread, STATE_READY_WOKEN, &moment);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_sched_wakeup, struct task_struct *task)
{
	return wake(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_sched_wakeup_new, struct task_struct *task)
{
	return wake(task);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_task_newtask, struct task_struct *task)
{
	if (is_target(task))
		meet_thread(task, STATE_ABSENT);
	return 0;
}

/*
 * Notes a new name, so that a thread is reported by the last one it had in the
 * window. One that calls execve(2) is renamed, too, after it got the id of the
 * process if it was not its first thread (fs/exec.c:begin_new_exec()).
 */
SEC("tp_btf/task_rename")
int BPF_PROG(on_task_rename, struct task_struct *task, const char *comm)
{
	struct thread_record *record;
	struct thread *thread;
	struct moment moment;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (!thread)
		return 0;
	take_moment(&moment);
	thread->tid = thread_id(task) ?: thread->tid;
	record = find_record(thread, task, &moment);
	if (record && moment.now_ns < moment.stop_ns) {
		record->tid = thread->tid;
		bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), comm);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit, struct task_struct *task)
{
	struct thread_record *record;
	struct thread *thread;
	struct moment moment;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (!thread)
		return 0;
	take_moment(&moment);
	record = find_record(thread, task, &moment);
	if (record && moment.now_ns < moment.stop_ns)
		record->exited = 1;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq, struct irqaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_hard_irq(task);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_handler_exit, int irq, struct irqaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		leave_hard_irq(task, action);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_soft_irq(task);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		leave_soft_irq(task, vector);
	return 0;
}

/*
 * Meets the threads that were there before the programs. A thread's own first
 * event may come at any time; it sets a state, and then the one seen here,
 * which may be older, must not overwrite it.
 */
SEC("iter/task")
int meet_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	enum thread_state state = STATE_BLOCKED;
	struct thread *thread;

	if (!task || !is_target(task))
		return 0;
	thread = meet_thread(task, STATE_UNKNOWN);
	if (!thread)
		return 0;
	if (task->on_cpu) {
		state = STATE_USER;
		thread->run_since_ns = BEFORE_ALL_WINDOWS;
	} else if (task->__state == TASK_RUNNING) {
		state = STATE_READY_WOKEN;
	} else if (task->__state & (__TASK_STOPPED | __TASK_TRACED)) {
		state = STATE_STOPPED;
	}
	__sync_val_compare_and_swap(&thread->state, STATE_UNKNOWN, state);
	return 0;
}

/*
 * Triggers. User space loads and attaches the ones that it is asked for, to
 * any number of places: a USDT probe may be in the code more than once. Those
 * in user code count only in the target, those in the kernel in any context.
 */
SEC("kprobe")
int on_start_uprobe(struct pt_regs *regs)
{
	if (is_target(bpf_get_current_task_btf()))
		hit_start(bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe")
int on_stop_uprobe(struct pt_regs *regs)
{
	if (is_target(bpf_get_current_task_btf()))
		hit_stop(bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe")
int on_both_uprobe(struct pt_regs *regs)
{
	if (is_target(bpf_get_current_task_btf()))
		hit_both(bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe")
int on_start_kprobe(struct pt_regs *regs)
{
	hit_start(bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe")
int on_stop_kprobe(struct pt_regs *regs)
{
	hit_stop(bpf_ktime_get_ns());
	return 0;
}

SEC("kprobe")
int on_both_kprobe(struct pt_regs *regs)
{
	hit_both(bpf_ktime_get_ns());
	return 0;
}

SEC("tracepoint")
int on_start_tracepoint(void *ctx)
{
	hit_start(bpf_ktime_get_ns());
	return 0;
}

SEC("tracepoint")
int on_stop_tracepoint(void *ctx)
{
	hit_stop(bpf_ktime_get_ns());
	return 0;
}

SEC("tracepoint")
int on_both_tracepoint(void *ctx)
{
	hit_both(bpf_ktime_get_ns());
	return 0;
}
