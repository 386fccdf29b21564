// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What the kernel does to each thread of one process, or of several: its syscalls, its time
 * on a CPU, waiting for one and stopped, and the interrupts it is charged.
 */
#include "../capture/chains/chains.h"
#include "thread.h"
#include "interrupt.h"
#include "iterators.h"
#include "polls.h"
#include "syscall.h"
#include "trigger.h"
#include "wakeup.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (is_target(prev) || is_target(next) || cpu_is_waited_for(cpu))
		note_switch(preempt, prev, next, cpu);
	report_switch(ctx, preempt, prev, next);
	return 0;
}

/* Only where there is accounting. */
SEC("?tp_btf/sched_migrate_task")
int BPF_PROG(on_sched_migrate_task, struct task_struct *task, int to)
{
	if (is_target(task))
		migrate(task, to);
	return 0;
}

/* Only where there is accounting. In the waker's context, which sched_wakeup may not be. */
SEC("?tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	if (is_target(task))
		note_waking(task);
	report_waking(task);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_sched_wakeup, struct task_struct *task)
{
	if (is_target(task))
		wake(task);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_sched_wakeup_new, struct task_struct *task)
{
	if (is_target(task))
		wake_new(task);
	return 0;
}

/*
 * In the parent's context, before the child runs: nothing of it is missed. It may have the number
 * of a target that has ended, whose last thread needed that until its last switch: by the number
 * it is none.
 */
static __always_inline void follow_child(struct task_struct *task)
{
	if (options.tgid || !is_process(task))
		return;
	if (options.children && is_target(bpf_get_current_task_btf()))
		mark_process(targets, task->tgid);
	else if (is_target(task))
		unmark_process(targets, task->tgid);
}

/*
 * Makes targets of the children that targets have, but for the tool itself, and writes a byte for
 * each: to be run until there is none. What any of them forks meanwhile on_task_newtask() sees.
 */
SEC("?iter/task")
int find_children(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u8 found = 1;

	if (!task || !is_process(task) || is_target(task) ||
	    task->tgid == bpf_get_current_task_btf()->tgid || !is_target(task->real_parent))
		return 0;
	mark_process(targets, task->tgid);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_task_newtask, struct task_struct *task)
{
	follow_forked(task);
	follow_child(task);
	if (is_target(task))
		register_thread(task, STATE_NOT_ALIVE);
	return 0;
}

/* What these do may be done twice, so they leave no note that it was done. */
SEC("?tp_btf/task_newtask")
int BPF_PROG(on_task_newtask_fallback, struct task_struct *task)
{
	follow_child(task);
	if (is_target(task))
		register_thread(task, STATE_NOT_ALIVE);
	return 0;
}

/*
 * Notes a new name, so that a thread is reported by the last one it had in the
 * window. One that calls execve(2) is renamed, too, after it got the id of the
 * process if it was not its first thread (fs/exec.c:begin_new_exec()).
 */
static __always_inline void note_name(struct task_struct *task, const char *comm)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	thread->tid = thread_id(task) ?: thread->tid;
	thread->own_tid = own_task_id(task);
	note_off_cpu_rounds(thread, comm);
	/* One that is made later has the new name. */
	record = find_made_record(thread, &timestamp);
	if (record && timestamp.now_ns < timestamp.stop_ns) {
		record->tid = thread->tid;
		record->own_tid = thread->own_tid;
		bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), comm);
	}
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_task_rename, struct task_struct *task, const char *comm)
{
	if (is_target(task))
		note_name(task, comm);
	return 0;
}

SEC("?tp_btf/task_rename")
int BPF_PROG(on_task_rename_fallback, struct task_struct *task, const char *comm)
{
	if (is_target(task))
		note_name(task, comm);
	return 0;
}

/* include/uapi/asm-generic/signal-defs.h */
#define SIG_IGN 1

static __always_inline void note_signal(struct task_struct *task, int signal,
					const struct kernel_siginfo *info,
					const struct k_sigaction *action)
{
	struct thread *thread = find_settled_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;

	if (!thread || (__u64)BPF_CORE_READ(action, sa.sa_handler) <= SIG_IGN)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	record = find_or_make_record(thread, &timestamp);
	if (record && timestamp.now_ns >= timestamp.start_ns &&
	    timestamp.now_ns < timestamp.stop_ns) {
		record->account.signals++;
		record->account.signal = signal;
		record->account.signal_code = BPF_CORE_READ(info, si_code);
		record->account.signal_sender = BPF_CORE_READ(info, _sifields._kill._pid);
	}
	/* Where the handler's end is not hooked, from its beginning on all time counts. */
	if (options.polls_only && !thread->handler_end_ns)
		thread->handler_end_ns = timestamp.now_ns;
}

/* What is delivered to no handler ends the thread, or stops it. include/trace/events/signal.h */
SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal_deliver, int signal, struct kernel_siginfo *info, struct k_sigaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!options.accounting || !is_target(task))
		return 0;
	note_signal(task, signal, info, action);
	if (signal >= SIGSTOP && signal <= SIGTTOU)
		note_stop(task, signal, info);
	return 0;
}

static __always_inline void note_end(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	record = find_made_record(thread, &timestamp);
	if (record && timestamp.now_ns < timestamp.stop_ns)
		record->exited = 1;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit, struct task_struct *task)
{
	if (is_target(task))
		note_end(task);
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit_fallback, struct task_struct *task)
{
	if (is_target(task))
		note_end(task);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_handler_entry, int irq, struct irqaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_hard_irq(task, (__u64)action);
	return 0;
}

/*
 * Optional: x86's interrupts of the kernel's own, as the local timer's. User space attaches
 * it to irq_vectors:*_entry, whichever there are, and on_irq_exit() to irq_vectors:*_exit.
 */
SEC("?raw_tp")
int on_irq_vector_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_hard_irq(task, (__u32)ctx->args[0] & (IRQ_VECTORS - 1));
	return 0;
}

/* Of both, and so verified once. It reads no argument, as theirs differ. */
SEC("raw_tp/irq_handler_exit")
int on_irq_exit(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		leave_hard_irq(task);
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

/* A kernel may lack what fentry takes, or the function. mm/memory.c, 5.14 to 6.18. */
SEC("?fentry/handle_mm_fault")
int on_fault_entry(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_fault(task);
	return 0;
}

SEC("?fexit/handle_mm_fault")
int on_fault_exit(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		leave_fault(task);
	return 0;
}

SEC("?fentry/handle_mm_fault")
int on_fault_entry_preemptible(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_target(task))
		return 0;
	stay_on_cpu();
	enter_fault(task);
	end_stay_on_cpu();
	return 0;
}

SEC("?fexit/handle_mm_fault")
int on_fault_exit_preemptible(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_target(task))
		return 0;
	stay_on_cpu();
	leave_fault(task);
	end_stay_on_cpu();
	return 0;
}

/*
 * Optional: for a process that has virtual machines. Not by BTF, as KVM is a module in most
 * kernels.
 */
SEC("?raw_tp/kvm_entry")
int on_kvm_entry(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = find_settled_thread(task);
	if (thread)
		thread->guest_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("?raw_tp/kvm_exit")
int on_kvm_exit(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct timestamp timestamp;
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = find_thread(task);
	if (!thread)
		return 0;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	check_guest(thread, &timestamp, timestamp.now_ns);
	return 0;
}

/*
 * Optional: of a thread whose round is long already, as user space sees now and then. It may
 * interrupt any other program.
 */
SEC("?perf_event")
int on_profile(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;
	__u64 now_ns;

	if (!options.rounds || !is_target(task) || is_kernel_worker(task) || !HAS_TASK_PT_REGS)
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	/* A PMD thread is sampled for what a log may say of it. */
	if (!thread || (thread->round_stop_ns != NEVER_NS && !thread->reports_off_cpu_rounds))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (options.polls_only) {
		split_run(thread, now_ns);
		if (thread->samples++ % SAMPLES_OF_STACK)
			return 0;
	}
	if (reports_events())
		report_sample(ctx, task, thread, now_ns);
	return 0;
}
