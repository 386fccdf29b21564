/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * How long the checks of single flows took. Each thread keeps the longest of its own, and the
 * leader sends those of all threads as the round ends, when none checks any more.
 */
#ifndef KERNEL_DELAY_FLOW_CHECKS_H
#define KERNEL_DELAY_FLOW_CHECKS_H

#include "ovs_event.h"
#include "udpif.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___sched_info {
	struct sched_info sched_info;
};

#pragma clang attribute pop

static __always_inline __u64 run_delay(struct task_struct *task)
{
	struct task_struct___sched_info *known = (void *)task;

	return BPF_CORE_READ(known, sched_info.run_delay);
}

static __always_inline bool has_run_delay(void)
{
	return bpf_core_field_exists(((struct task_struct___sched_info *)0)->sched_info.run_delay);
}

/* Revalidators; those of an earlier configuration are forgotten for newer ones. */
#define MAX_CHECKERS 1024

struct checker {
	__u64 udpif; /* of the round that @start_ns began, and what follows is of */
	__u64 start_ns;
	__u64 n_checks;
	__u64 checks_ns;
	__u64 waited_ns;
	__u64 ukey; /* that it checks, 0: none */
	__u64 begun_ns;
	__u64 run_delay_ns; /* when it began */
	__u32 tid; /* in the tool's PID namespace */
	__u32 reserved;
	struct flow_check slowest[SLOWEST_CHECKS];
};

/* By the thread's id. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CHECKERS);
	__type(key, __u32);
	__type(value, struct checker);
} checkers SEC(".maps");

/* What a thread is at first: too large for the stack. */
static const volatile struct checker no_checker SEC(".rodata.checker");

static __always_inline struct checker *current_checker(void)
{
	__u32 id = bpf_get_current_task_btf()->pid;

	return bpf_map_lookup_elem(&checkers, &id);
}

static __noinline int begin_check(__u64 udpif, __u64 start_ns, __u64 ukey)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct checker *checker = current_checker();
	__u32 id = task->pid;

	if (!checker) {
		bpf_map_update_elem(&checkers, &id, (const void *)&no_checker, BPF_NOEXIST);
		checker = bpf_map_lookup_elem(&checkers, &id);
	}
	if (!checker)
		return 0;
	if (checker->udpif != udpif || checker->start_ns != start_ns) {
		checker->udpif = udpif;
		checker->start_ns = start_ns;
		checker->tid = task_id(task, options.pid_level);
		checker->n_checks = 0;
		checker->checks_ns = 0;
		checker->waited_ns = 0;
		__builtin_memset(checker->slowest, 0, sizeof(checker->slowest));
	}
	checker->ukey = ukey;
	checker->run_delay_ns = has_run_delay() ? run_delay(task) : 0;
	checker->begun_ns = bpf_ktime_get_ns();
	return 0;
}

/* The one of least work of those that are kept. */
static __always_inline struct flow_check *least_check(struct checker *checker)
{
	struct flow_check *least = &checker->slowest[0], *check;

	for (int i = 1; i < SLOWEST_CHECKS; i++) {
		check = &checker->slowest[i];
		if (check->ns - check->waited_ns < least->ns - least->waited_ns)
			least = check;
	}
	return least;
}

static __noinline int end_check(__u32 result)
{
	__u64 now_ns = bpf_ktime_get_ns(), ns, waited_ns = 0;
	struct checker *checker = current_checker();
	struct flow_check *check;
	struct udpif_key flow;

	if (!checker || !checker->ukey)
		return 0;
	ns = now_ns - checker->begun_ns;
	if (has_run_delay())
		waited_ns = run_delay(bpf_get_current_task_btf()) - checker->run_delay_ns;
	/* The clock of run queues is another one. */
	if (waited_ns > ns)
		waited_ns = ns;
	checker->n_checks++;
	checker->checks_ns += ns;
	checker->waited_ns += waited_ns;
	check = least_check(checker);
	if (ns - waited_ns >= check->ns - check->waited_ns &&
	    !bpf_probe_read_user(&flow, sizeof(flow), (void *)checker->ukey)) {
		check->ns = ns;
		check->waited_ns = waited_ns;
		check->n_packets = flow.stats.n_packets;
		check->created_ms = flow.created;
		__builtin_memcpy(check->ufid, flow.ufid, sizeof(check->ufid));
		check->result = result;
	}
	checker->ukey = 0;
	return 0;
}

struct round_of_checks {
	__u64 udpif;
	__u64 start_ns;
};

/* For bpf_for_each_map_elem(). */
static long send_checks(void *map, __u32 *id, struct checker *checker,
			struct round_of_checks *of_round)
{
	struct flow_checks *event;

	if (checker->udpif != of_round->udpif || checker->start_ns != of_round->start_ns)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		count_lost(EVENT_FLOW_CHECKS);
		return 0;
	}
	begin_event(&event->event, EVENT_FLOW_CHECKS, bpf_ktime_get_ns());
	event->udpif = checker->udpif;
	event->start_ns = checker->start_ns;
	event->n_checks = checker->n_checks;
	event->checks_ns = checker->checks_ns;
	event->waited_ns = checker->waited_ns;
	event->tid = checker->tid;
	event->waits_known = has_run_delay();
	__builtin_memcpy(event->slowest, checker->slowest, sizeof(event->slowest));
	submit(event);
	return 0;
}

/* Sends what all threads checked in a round. */
static __always_inline void send_all_checks(__u64 udpif, __u64 start_ns)
{
	struct round_of_checks of_round = {udpif, start_ns};

	bpf_for_each_map_elem(&checkers, send_checks, &of_round, 0);
}

#endif
