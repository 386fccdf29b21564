// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What the kernel does to each thread of one process, or of several: its syscalls, its time
 * on a CPU, waiting for one and stopped, and the interrupts it is charged.
 */
#include "thread.h"
#include "stand_in.h"
#include "syscall.h"
#include "scheduling.h"
#include "fault.h"
#include "guest.h"
#include "interrupt.h"
#include "event.h"
#include "profile.h"
#include "trigger.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline void note_entry(struct thread *thread, struct task_struct *task,
				       struct pt_regs *regs, long number)
{
	struct timestamp timestamp;

	take_timestamp(&timestamp);
	see_round(&timestamp, thread);
	enter_syscall(thread, task, syscall_id(task, number), regs, &timestamp);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	stay_on_cpu(BY_TRACEPOINT);
	thread = find_thread(task);
	if (thread) {
		note_entry(thread, task, regs, number);
		leave_note(thread, BOUNDARY_ENTRY);
	}
	end_stay_on_cpu(BY_TRACEPOINT);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter_stand_in, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = take_over(task, BOUNDARY_ENTRY);
	if (!thread)
		return 0;
	stay_on_cpu(BY_TRACEPOINT);
	note_entry(thread, task, regs, number);
	count_up(&control.entries_taken_over);
	end_stay_on_cpu(BY_TRACEPOINT);
	return 0;
}

static __always_inline void note_exit(void *ctx, struct thread *thread, struct task_struct *task,
				      struct pt_regs *regs, long value)
{
	struct timestamp timestamp;

	take_timestamp(&timestamp);
	see_round(&timestamp, thread);
	if (reports_events() && thread->syscall != NO_SYSCALL &&
	    is_within(&timestamp, thread->syscall_since_ns) &&
	    is_event(thread->syscall, length_since(timestamp.now_ns, thread->syscall_since_ns)))
		report_syscall(ctx, regs, thread, value, &timestamp);
	leave_syscall(thread, task, regs, value, &timestamp);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	stay_on_cpu(BY_TRACEPOINT);
	thread = find_thread(task);
	if (thread) {
		note_exit(ctx, thread, task, regs, value);
		leave_note(thread, BOUNDARY_EXIT);
	}
	end_stay_on_cpu(BY_TRACEPOINT);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit_stand_in, struct pt_regs *regs, long value)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!is_target(task))
		return 0;
	thread = take_over(task, BOUNDARY_EXIT);
	if (!thread)
		return 0;
	stay_on_cpu(BY_TRACEPOINT);
	note_exit(ctx, thread, task, regs, value);
	count_up(&control.exits_taken_over);
	end_stay_on_cpu(BY_TRACEPOINT);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (is_target(prev) || is_target(next) || cpu_is_waited_for(cpu))
		note_switch(preempt, prev, next, cpu);
	return 0;
}

/* Only where there is accounting. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_sched_migrate_task, struct task_struct *task, int to)
{
	if (is_target(task))
		migrate(task, to);
	return 0;
}

/* Only where there is accounting. In the waker's context, which sched_wakeup may not be. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_sched_waking, struct task_struct *task)
{
	if (is_target(task))
		note_waking(task);
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
		wake(task);
	return 0;
}

/* In the parent's context, before the child runs: nothing of it is missed. */
static __always_inline void follow_child(struct task_struct *task)
{
	if (options.children && is_process(task) && is_target(bpf_get_current_task_btf()))
		add_target(task->tgid);
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_task_newtask, struct task_struct *task)
{
	follow_child(task);
	if (is_target(task))
		register_thread(task, STATE_NOT_ALIVE);
	return 0;
}

/* The stand-ins of what may be done twice need no note of whether it was done. */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_task_newtask_stand_in, struct task_struct *task)
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
	note_absences(thread, comm);
	record = find_record(thread, task, &timestamp);
	if (record && timestamp.now_ns < timestamp.stop_ns) {
		record->tid = thread->tid;
		record->own_tid = own_task_id(task);
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

SEC("tp_btf/task_rename")
int BPF_PROG(on_task_rename_stand_in, struct task_struct *task, const char *comm)
{
	if (is_target(task))
		note_name(task, comm);
	return 0;
}

static __always_inline void note_signal(struct task_struct *task)
{
	struct thread *thread = find_thread(task);
	struct thread_record *record;
	struct timestamp timestamp;

	if (!thread)
		return;
	take_timestamp(&timestamp);
	use_round(&timestamp, thread);
	record = find_record(thread, task, &timestamp);
	if (record && timestamp.now_ns >= timestamp.start_ns &&
	    timestamp.now_ns < timestamp.stop_ns)
		record->account.signals++;
}

/* include/uapi/asm-generic/siginfo.h: kill(2), sigqueue(3), tgkill(2) */
#define SI_USER 0
#define SI_QUEUE -1
#define SI_TKILL -6

/*
 * Notes who sent a signal that stops the process, SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU
 * (include/uapi/asm-generic/signal.h): one of its threads takes it, and has all stop. From
 * 6.14 on a program may not follow @info as it may be no pointer (SEND_SIG_PRIV).
 */
static __always_inline void note_stop(struct task_struct *task, int signal,
				      const struct kernel_siginfo *info)
{
	int code = BPF_CORE_READ(info, si_code);

	control.stop_sender = code == SI_USER || code == SI_QUEUE || code == SI_TKILL
				      ? BPF_CORE_READ(info, _sifields._kill._pid)
				      : 0;
	control.stop_process = process_id(task);
	control.stop_signal = signal;
}

#define SIGSTOP 19
#define SIGTTOU 22

/* What is delivered to no handler ends the thread, or stops it. include/trace/events/signal.h */
SEC("tp_btf/signal_deliver")
int BPF_PROG(on_signal_deliver, int signal, struct kernel_siginfo *info)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!options.accounting || !is_target(task))
		return 0;
	note_signal(task);
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
	record = find_record(thread, task, &timestamp);
	if (record && timestamp.now_ns < timestamp.stop_ns)
		record->exited = 1;
}

/*
 * Only where this opens the window: the new program's first instruction is next. @task is
 * what calls execve(2).
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_sched_process_exec, struct task_struct *task)
{
	if (is_target(task))
		hit_start(bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit, struct task_struct *task)
{
	if (is_target(task))
		note_end(task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_sched_process_exit_stand_in, struct task_struct *task)
{
	if (is_target(task))
		note_end(task);
	return 0;
}

/*
 * Only where targets are several. A process's first thread goes last, and after its last switch
 * (kernel/exit.c:delayed_put_task_struct(), 5.14 to 6.18). One that lost its number to a thread
 * that called execve(2) has another by then (fs/exec.c:de_thread()).
 */
SEC("tp_btf/sched_process_free")
int BPF_PROG(on_sched_process_free, struct task_struct *task)
{
	if (is_process(task) && is_target(task))
		remove_target(task->tgid);
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
		leave_hard_irq(task, (__u64)action);
	return 0;
}

/*
 * Optional: x86's interrupts of the kernel's own, as the local timer's. User space attaches
 * them to irq_vectors:*_entry and _exit, whichever there are.
 */
SEC("raw_tp")
int on_irq_vector_entry(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_hard_irq(task);
	return 0;
}

SEC("raw_tp")
int on_irq_vector_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		leave_hard_irq(task, (__u32)ctx->args[0] & (IRQ_VECTORS - 1));
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

/* Optional: a kernel may lack what fentry takes, or the function. mm/memory.c, 5.14 to 6.18. */
SEC("fentry/handle_mm_fault")
int on_fault_entry(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_target(task))
		return 0;
	stay_on_cpu(BY_FENTRY);
	enter_fault(task);
	end_stay_on_cpu(BY_FENTRY);
	return 0;
}

SEC("fexit/handle_mm_fault")
int on_fault_exit(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!is_target(task))
		return 0;
	stay_on_cpu(BY_FENTRY);
	leave_fault(task);
	end_stay_on_cpu(BY_FENTRY);
	return 0;
}

/*
 * Optional: for a process that has virtual machines. Not by BTF, as KVM is a module in most
 * kernels.
 */
SEC("raw_tp/kvm_entry")
int on_kvm_entry(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		enter_guest(task);
	return 0;
}

SEC("raw_tp/kvm_exit")
int on_kvm_exit(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_target(task))
		leave_guest(task);
	return 0;
}

/*
 * Makes targets of the children that targets have, but for the tool itself, and writes a byte for
 * each: to be run until there is none. What any of them forks meanwhile on_task_newtask() sees.
 */
SEC("iter/task")
int find_children(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u8 found = 1;

	if (!task || !is_process(task) || is_target(task) ||
	    task->tgid == bpf_get_current_task_btf()->tgid || !is_target(task->real_parent))
		return 0;
	add_target(task->tgid);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

/*
 * Registers the threads that were there before the programs. A thread's own first
 * event may come at any time; it sets a state, and then the one seen here,
 * which may be older, must not overwrite it. To be run twice: what is seen
 * just while a thread switches may be wrong, and is corrected then.
 */
SEC("iter/task")
int register_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	enum scheduler_state state = STATE_BLOCKED;
	struct thread *thread;
	__u32 known;

	if (!task || !is_target(task))
		return 0;
	thread = register_thread(task, STATE_UNKNOWN);
	if (!thread || thread->since_ns || task->__state & TASK_NEW)
		return 0;
	known = thread->state;
	if (task->__state & TASK_DEAD)
		state = STATE_NOT_ALIVE;
	else if (task->on_cpu)
		state = STATE_RUNNING;
	else if (task->__state == TASK_RUNNING)
		state = is_throttled(task) ? STATE_THROTTLED : STATE_READY_WOKEN;
	else if (task->__state & (__TASK_STOPPED | __TASK_TRACED))
		state = STATE_STOPPED;
	else if (is_frozen(task, task->__state))
		state = STATE_FROZEN;
	if (state == STATE_RUNNING)
		__sync_val_compare_and_swap(&thread->run_since_ns, 0, BEFORE_ALL_WINDOWS);
	else
		__sync_val_compare_and_swap(&thread->run_since_ns, BEFORE_ALL_WINDOWS, 0);
	if (__sync_val_compare_and_swap(&thread->state, known, state) == known &&
	    state == STATE_READY_WOKEN && !thread->wait_cpu) {
		thread->ready_since_ns = BEFORE_ALL_WINDOWS;
		begin_wait_unlocked(thread, task_cpu(task), group_of(task));
	}
	return 0;
}

/*
 * Notes what lock is waited for by threads that were in futex(2) before the
 * programs. Optional: an iterator that may sleep takes Linux 5.18.
 */
SEC("iter.s/task")
int note_futex_owners(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 mode = MODE_UNKNOWN, owner = 0;
	__u64 lock, number = NO_SYSCALL;
	struct thread *thread;

	if (!task || !is_target(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || thread->since_ns || thread->state != STATE_BLOCKED)
		return 0;
	settle_mode(task, &mode, &number);
	if (mode != MODE_SYSCALL || !(syscall_flags(number) & SYSCALL_IS_FUTEX))
		return 0;
	lock = lock_of(number, (struct pt_regs *)bpf_task_pt_regs(task));
	if (!lock ||
	    bpf_copy_from_user_task(&owner, sizeof(owner), (void *)(lock + OWNER_OFFSET), task, 0))
		return 0;
	/* The thread may be off to its next call by now. */
	if (!__sync_val_compare_and_swap(&thread->lock, 0, lock))
		__sync_val_compare_and_swap(&thread->futex_owner, 0, owner);
	return 0;
}

/*
 * Who has the CPU that @task waits for, unless a switch was missed, or is under
 * way. The number is read first: if a slice of that number is ended meanwhile,
 * that one holds.
 */
static __always_inline void note_running(struct slice *slice, struct task_struct *task, __u32 cpu)
{
	struct rq *rq = kernel_run_queue(task);
	struct run_queue *run_queue = run_queue_of(cpu);
	struct task_struct *running;
	__u64 number, seen;

	if (!rq || !run_queue)
		return;
	number = *(volatile __u64 *)&run_queue->slices + 1;
	seen = *(volatile __u64 *)&run_queue->switches;
	barrier();
	running = rq->curr;
	if (!running || (__u32)rq->cpu != cpu || (seen && seen != rq->nr_switches))
		return;
	note_task(&slice->prev, running);
	slice->group = (__u64)group_of(running);
	slice->number = number;
}

/* Where @task sleeps, if that is not noted and it may be told by the window's end. */
static __always_inline void note_sleep(struct thread_state *dumped, struct task_struct *task)
{
	if (dumped->state != STATE_BLOCKED || dumped->sleep_stack ||
	    !is_long_sleep(dumped->state_since_ns, bpf_ktime_get_ns()))
		return;
	dumped->uninterruptible = !!(task->__state & TASK_UNINTERRUPTIBLE);
	dumped->sleep_stack = sleep_stack(task, READ_BY_ITERATOR);
}

/* Dumps the state of each thread that is there: user space accounts for the time since. */
SEC("iter/task")
int dump_thread_states(struct bpf_iter__task *ctx)
{
	struct dumped_thread dumped = {};
	struct task_struct *task = ctx->task;
	struct thread *thread;

	if (!task || !is_target(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	dumped.identity = thread->identity;
	dumped.tid = thread->tid;
	dumped.own_tid = own_task_id(task);
	dumped.process = thread->process;
	dumped.kernel_worker = is_kernel_worker(task);
	bpf_probe_read_kernel_str(dumped.comm, sizeof(dumped.comm), task->comm);
	note_thread_state(&dumped.now, thread);
	note_sleep(&dumped.now, task);
	if (dumped.now.wait_cpu)
		note_running(&dumped.running, task, dumped.now.wait_cpu - 1);
	dumped.on_cpu = task->on_cpu;
	dumped.uprobes = uprobes_of(task);
	dumped.times.user_ns = task->utime;
	dumped.times.system_ns = task->stime;
	dumped.times.minor_faults = task->min_flt;
	dumped.times.major_faults = task->maj_flt;
	dumped.times.migrations = task->se.nr_migrations;
	dumped.times.steal_ns = steal_until_now(thread, task);
	barrier();
	if (*(volatile __u64 *)&thread->state_changes != dumped.now.state_changes)
		dumped.now.state_changes |= 1;
	if (dumped.now.mode == MODE_UNKNOWN)
		settle_mode(task, &dumped.now.mode, &dumped.now.syscall);
	bpf_seq_write(ctx->meta->seq, &dumped, sizeof(dumped));
	return 0;
}

/*
 * Optional: of a thread whose round is long already, as user space sees now and then. It may
 * interrupt any other program.
 */
SEC("perf_event")
int on_profile(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread;

	if (!options.rounds || !is_target(task) || is_kernel_worker(task) ||
	    !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (thread && thread->round_stop_ns == NEVER_NS)
		report_sample(ctx, task, thread, bpf_ktime_get_ns());
	return 0;
}

/* Dumps of each thread that is there how its rounds went, and what it does. */
SEC("iter/task")
int dump_rounds(struct bpf_iter__task *ctx)
{
	struct thread_rounds rounds = {};
	struct task_struct *task = ctx->task;
	struct thread *thread;

	if (!task || !is_target(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread)
		return 0;
	rounds.identity = thread->identity;
	rounds.tid = thread->tid;
	rounds.own_tid = own_task_id(task);
	bpf_probe_read_kernel_str(rounds.comm, sizeof(rounds.comm), task->comm);
	rounds.ran_ns = task->se.sum_exec_runtime;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		rounds.runnable_ns = task->sched_info.run_delay;
	rounds.round = thread->round;
	rounds.start_ns = thread->round_start_ns;
	rounds.stop_ns = thread->round_stop_ns;
	rounds.longest_ns = thread->longest_round_ns;
	bpf_probe_read_kernel(rounds.lengths, sizeof(rounds.lengths), thread->round_lengths);
	note_thread_state(&rounds.now, thread);
	if (rounds.now.mode == MODE_UNKNOWN)
		settle_mode(task, &rounds.now.mode, &rounds.now.syscall);
	bpf_seq_write(ctx->meta->seq, &rounds, sizeof(rounds));
	return 0;
}

/* Dumps of each thread that is there where all its time went. Read while it goes on. */
SEC("iter/task")
int dump_totals(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct told_totals_head head = {};
	struct thread *thread;
	__u64 state_changes;

	if (!task || !is_target(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || !thread->totals.since_ns || thread->totals.exit_ns)
		return 0;
	head.identity = thread->identity;
	head.tid = thread->tid;
	head.kernel_worker = is_kernel_worker(task);
	bpf_probe_read_kernel_str(head.comm, sizeof(head.comm), task->comm);
	note_thread_state(&head.now, thread);
	if (head.now.mode == MODE_UNKNOWN)
		settle_mode(task, &head.now.mode, &head.now.syscall);
	head.now_ns = bpf_ktime_get_ns();
	bpf_seq_write(ctx->meta->seq, &head, sizeof(head));
	bpf_seq_write(ctx->meta->seq, &thread->totals, sizeof(thread->totals));
	barrier();
	state_changes = *(volatile __u64 *)&thread->state_changes;
	bpf_seq_write(ctx->meta->seq, &state_changes, sizeof(state_changes));
	return 0;
}

/*
 * Names the functions on each stack in sleep_stacks: a line with its slot and 1, and the
 * names, of those in modules with the module's behind. They are return addresses, which may
 * be behind the end of a function that does not return.
 */
SEC("iter/bpf_map_elem")
int name_sleep_stacks(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct sleep_stack *stack = ctx->value;
	__u32 *slot = ctx->key;

	if (!stack || !slot || !stack->written)
		return 0;
	BPF_SEQ_PRINTF(seq, "%u", *slot + 1);
	for (int i = 0; i < SLEEP_FRAMES; i++) {
		if (!stack->frames[i])
			break;
		BPF_SEQ_PRINTF(seq, "\t%ps", (void *)stack->frames[i] - 1);
	}
	BPF_SEQ_PRINTF(seq, "\n");
	return 0;
}

/*
 * Triggers. User space loads and attaches the ones that it is asked for, to
 * any number of places: a USDT probe may be in the code more than once. Those
 * in user code count only in the target, those in the kernel in any context. With rounds they
 * are in user code, and begin and end those of the thread that hits them.
 */
#define ON_HIT(section, kind, boundary, ends, begins, counts)                                      \
	SEC(section)                                                                               \
	int on_##boundary##_##kind(void *ctx)                                                      \
	{                                                                                          \
		if (!(counts))                                                                     \
			return 0;                                                                  \
		if (options.rounds)                                                                \
			pass_round(bpf_ktime_get_ns(), ends, begins);                              \
		else                                                                               \
			hit_##boundary(bpf_ktime_get_ns());                                        \
		return 0;                                                                          \
	}

#define ON_HITS(section, kind, counts)                                                             \
	ON_HIT(section, kind, start, false, true, counts)                                          \
	ON_HIT(section, kind, stop, true, false, counts)                                           \
	ON_HIT(section, kind, both, true, true, counts)

ON_HITS("kprobe", uprobe, is_target(bpf_get_current_task_btf()))
ON_HITS("kprobe", kprobe, true)
ON_HITS("tracepoint", tracepoint, true)
