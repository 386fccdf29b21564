/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What user space runs when it wants to know: programs that go through all threads, or through a
 * map, and write what they find.
 */
#ifndef KERNEL_DELAY_ITERATORS_H
#define KERNEL_DELAY_ITERATORS_H

#include "thread.h"
#include "wakeup.h"

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
	else if (task->__state & TASK_FROZEN)
		thread->frozen_since_ns = BEFORE_ALL_WINDOWS;
	else if (is_frozen(task, task->__state))
		state = STATE_FROZEN;
	else {
		thread->frozen_since_ns = 0;
		note_waits(thread, task);
	}
	if (state == STATE_RUNNING)
		__sync_val_compare_and_swap(&thread->run_since_ns, 0, BEFORE_ALL_WINDOWS);
	if (__sync_val_compare_and_swap(&thread->state, known, state) == known &&
	    state == STATE_READY_WOKEN && !thread->wait_cpu) {
		thread->ready_since_ns = BEFORE_ALL_WINDOWS;
		begin_wait_unlocked(thread, task_cpu(task), group_of(task));
	}
	return 0;
}

/* include/uapi/linux/magic.h */
#define FUSE_SUPER_MAGIC 0x65735546

/* A mapping of memory, as far as it shows who supplies its pages. */
struct mapping {
	__u64 end;
	__u64 magic; /* of the file system that it is of; 0: of none */
	__u64 userfaultfd;
};

/* Without a branch, as length_since(). What is read of a NULL is 0. */
static long note_mapping(struct task_struct *task, struct vm_area_struct *vma, void *context)
{
	struct mapping *mapping = context;

	mapping->end = vma->vm_end;
	mapping->magic = vma->vm_file->f_inode->i_sb->s_magic;
	if (bpf_core_field_exists(vma->vm_userfaultfd_ctx.ctx))
		bpf_core_read(&mapping->userfaultfd, sizeof(mapping->userfaultfd),
			      &vma->vm_userfaultfd_ctx.ctx);
	return 0;
}

/*
 * Reads memory of @task as bpf_copy_from_user_task() does, but none whose page a FUSE server or a
 * userfaultfd has to supply: the tool would wait for it, and SIGKILL does not end a wait for FUSE.
 */
static __always_inline long copy_at_once(void *to, __u32 size, __u64 address,
					 struct task_struct *task)
{
	struct mapping mapping = {};

	if (bpf_find_vma(task, address, note_mapping, &mapping, 0) ||
	    address + size > mapping.end || mapping.magic == FUSE_SUPER_MAGIC ||
	    mapping.userfaultfd)
		return -1;
	return bpf_copy_from_user_task(to, size, (void *)address, task, 0);
}

/* What a thread that waits in a call has of its memory: a lock, or the only file of a poll(2). */
union waited_for {
	union mutex mutex;
	struct pollfd only;
};

/*
 * Notes what lock is waited for by threads that were in futex(2) before the programs, and the only
 * file of a poll(2). Optional: an iterator that may sleep takes Linux 5.18.
 */
SEC("?iter.s/task")
int note_futex_owners(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	union waited_for waited_for = {};
	__u32 mode = MODE_UNKNOWN, size;
	__u64 address, number = NO_SYSCALL;
	struct thread *thread;
	struct pt_regs *regs;
	bool polls;

	if (!task || !is_target(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || thread->since_ns || thread->state != STATE_BLOCKED)
		return 0;
	settle_mode(task, &mode, &number);
	if (mode != MODE_SYSCALL)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	polls = syscall_flags(number) & SYSCALL_POLLS_ARRAY;
	if (polls)
		address = polled_count(regs) == 1 ? polled_array(regs) : 0;
	else if (syscall_flags(number) & SYSCALL_IS_FUTEX)
		address = lock_of(number, regs);
	else
		return 0;
	size = polls ? sizeof(waited_for.only) : sizeof(waited_for.mutex);
	if (!address || copy_at_once(&waited_for, size, address, task))
		return 0;
	if (polls)
		note_polled_before(thread, task, &waited_for.only);
	/* The thread may be off to its next call by now. */
	else if (!__sync_val_compare_and_swap(&thread->lock, 0, address))
		__sync_val_compare_and_swap(&thread->futex_owner, 0,
					    owner_of(&waited_for.mutex, number));
	return 0;
}

/*
 * Who has the CPU that a task of @rq waits for, unless a switch was missed, or is under
 * way. The number is read first: if a slice of that number is ended meanwhile,
 * that one holds.
 */
static __always_inline void note_running(struct slice *slice, struct rq *rq, __u32 cpu)
{
	struct run_queue *run_queue = run_queue_of(cpu);
	struct task_struct *running;
	__u64 number, seen;

	if (!has_run_queues() || !run_queue)
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

/* Where @task sleeps, if that is not noted and it may be reported by the window's end. */
static __always_inline void note_sleep(struct thread_state *dumped, struct task_struct *task)
{
	if (dumped->state != STATE_BLOCKED || dumped->sleep_stack ||
	    !is_long_sleep(dumped->state_since_ns, bpf_ktime_get_ns()))
		return;
	dumped->uninterruptible = task->__state / TASK_UNINTERRUPTIBLE & 1;
	dumped->sleep_stack = sleep_stack(task, READ_BY_ITERATOR);
}

/* Which interrupts are served on the time of @task now. */
static __always_inline void note_interrupts(struct thread_state *dumped, struct thread *thread,
					    struct task_struct *task)
{
	struct soft_irq *soft_irq;
	__u64 since_ns;

	if (!task->on_cpu)
		return;
	dumped->hard_irq_since_ns = *(volatile __u64 *)&thread->hard_irq_since_ns;
	soft_irq = soft_irq_where(task, thread);
	if (!soft_irq || soft_irq->task != (__u64)task)
		return;
	since_ns = *(volatile __u64 *)&soft_irq->since_ns;
	if (since_ns == STARTS_NOW)
		return;
	dumped->soft_irq_since_ns = since_ns;
	dumped->soft_irq_lost_ns = soft_irq->lost_ns;
}

/*
 * Does @task, which runs, go on in its program since its call, the return of which was missed?
 * Where that is still its mode after it was looked at, none was seen meanwhile.
 */
static __always_inline bool runs_on(struct task_struct *task, const struct thread *thread,
				    const struct thread_state *dumped)
{
	if (dumped->mode != MODE_SYSCALL || !task->on_cpu || !has_returned(task, dumped->syscall))
		return false;
	barrier();
	return *(volatile __u32 *)&thread->mode == MODE_SYSCALL &&
	       *(volatile __u64 *)&thread->mode_since_ns == dumped->mode_since_ns;
}

/* No stack, as the verifier follows what is on that. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dumped_thread);
} dumped_threads SEC(".maps");

/*
 * Dumps the state of each thread that is there: user space accounts for the time since.
 *
 * Pointers are read before the ways part. Each time that the verifier comes by where one is read
 * from what it trusts, it goes through all of the kernel's types by name, for some 0.5 ms
 * (kernel/bpf/btf.c: btf_nested_type_is_trusted(), 6.4 to 6.18).
 */
SEC("?iter/task")
int dump_thread_states(struct bpf_iter__task *ctx)
{
	struct dumped_thread *dumped;
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct thread *thread;
	__u32 only = 0;
	struct rq *rq;

	if (!task || !is_target(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	dumped = bpf_map_lookup_elem(&dumped_threads, &only);
	if (!thread || !dumped)
		return 0;
	clear(dumped, sizeof(*dumped));
	rq = kernel_run_queue(task);
	dumped->identity = thread->identity;
	dumped->tid = thread->tid;
	dumped->own_tid = thread->own_tid;
	dumped->process = thread->process;
	dumped->kernel_worker = thread->kernel_worker;
	bpf_probe_read_kernel_str(dumped->comm, sizeof(dumped->comm), task->comm);
	look_at_sleeper(thread, task);
	note_thread_state(&dumped->now, thread);
	dumped->now.sleep_file = sleep_file(thread, task);
	dumped->now.sleep_record = thread->sleep_record;
	note_unknown_freeze(&dumped->now, task);
	dumped->on_cpu = task->on_cpu;
	dumped->woken = (dumped->now.state == STATE_BLOCKED) & (task->__state == TASK_RUNNING);
	dumped->ran = (dumped->now.state != STATE_RUNNING) & has_unseen_run(thread, task);
	dumped->policy = task->policy;
	dumped->static_prio = task->static_prio;
	dumped->rt_priority = task->rt_priority;
	dumped->made_ns = task->start_time;
	note_task_times(&dumped->times, thread, task, rq);
	/* Last, as the verifier follows each way from here on. */
	dumped->uprobes = uprobes_of(task);
	note_interrupts(&dumped->now, thread, task);
	note_sleep(&dumped->now, task);
	if (dumped->now.wait_cpu)
		note_running(&dumped->running, rq, dumped->now.wait_cpu - 1);
	dumped->returned = runs_on(task, thread, &dumped->now);
	barrier();
	dumped->now.state_changes |= 1 & ~mask_if_same(*(volatile __u64 *)&thread->state_changes,
						       dumped->now.state_changes);
	if (dumped->now.mode == MODE_UNKNOWN)
		settle_mode(task, &dumped->now.mode, &dumped->now.syscall);
	bpf_seq_write(seq, dumped, sizeof(*dumped));
	return 0;
}

/* Dumps of each thread that is there how its rounds went, and what it does. */
SEC("?iter/task")
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
	rounds.own_tid = thread->own_tid;
	bpf_probe_read_kernel_str(rounds.comm, sizeof(rounds.comm), task->comm);
	rounds.ran_ns = task->se.sum_exec_runtime;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		rounds.runnable_ns = task->sched_info.run_delay;
	rounds.system_ns = task->stime;
	rounds.round = thread->round;
	rounds.start_ns = thread->round_start_ns;
	rounds.stop_ns = thread->round_stop_ns;
	rounds.longest_ns = thread->longest_round_ns;
	look_at_sleeper(thread, task);
	bpf_probe_read_kernel(rounds.lengths, sizeof(rounds.lengths), thread->round_lengths);
	note_thread_state(&rounds.now, thread);
	if (rounds.now.mode == MODE_UNKNOWN)
		settle_mode(task, &rounds.now.mode, &rounds.now.syscall);
	bpf_seq_write(ctx->meta->seq, &rounds, sizeof(rounds));
	return 0;
}

/* Dumps of each thread that is there where all its time went. Read while it goes on. */
SEC("?iter/task")
int dump_totals(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct reported_totals_head head = {};
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
	look_at_sleeper(thread, task);
	note_thread_state(&head.now, thread);
	note_unknown_freeze(&head.now, task);
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

/* A stack that is named. */
struct named_stack {
	struct seq_file *seq;
	const struct sleep_stack *stack;
};

/* Returns whether there was no such frame. */
static long name_frame(__u32 frame, struct named_stack *named)
{
	if (frame >= SLEEP_FRAMES || !named->stack->frames[frame])
		return 1;
	BPF_SEQ_PRINTF(named->seq, "\t%ps", (void *)named->stack->frames[frame] - 1);
	return 0;
}

static __always_inline void name_frames(struct named_stack *named)
{
	if (HAS_LOOP) {
		bpf_loop(SLEEP_FRAMES, name_frame, named, 0);
		return;
	}
	for (int i = 0; i < SLEEP_FRAMES && !name_frame(i, named); i++) {
	}
}

/*
 * Names the functions on each stack in sleep_stacks: a line with its slot and 1, and the
 * names, of those in modules with the module's behind. They are return addresses, which may
 * be behind the end of a function that does not return.
 */
SEC("?iter/bpf_map_elem")
int name_sleep_stacks(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct named_stack named = {.seq = seq};
	__u32 *key = ctx->key, slot;

	if (!key)
		return 0;
	slot = *key;
	/* Of ctx->value no element may be read by its number. */
	named.stack = bpf_map_lookup_elem(&sleep_stacks, &slot);
	if (!named.stack || !named.stack->written)
		return 0;
	BPF_SEQ_PRINTF(seq, "%u", slot + 1);
	name_frames(&named);
	BPF_SEQ_PRINTF(seq, "\n");
	return 0;
}

#endif
