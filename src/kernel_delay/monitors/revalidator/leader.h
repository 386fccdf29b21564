/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* How long the leaders of rounds were off their CPUs. */
#ifndef KERNEL_DELAY_LEADER_H
#define KERNEL_DELAY_LEADER_H

#include "ovs_event.h"

#define MAX_UDPIFS 1024

struct leader {
	__u64 left_ns; /* when it left its CPU; 0: it is on one */
	__u64 off_cpu_ns;
	bool missed; /* not every switch was seen */
	bool dumped; /* it destroyed the dump */
	__u64 udpif; /* where functions are followed: the round's */
};

/* Leaders in a round, by their id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_UDPIFS);
	__type(key, __u32);
	__type(value, struct leader);
} leaders SEC(".maps");

static __always_inline void switch_out(struct task_struct *task, __u64 now_ns)
{
	__u32 id = task->pid;
	struct leader *leader = bpf_map_lookup_elem(&leaders, &id);

	if (!leader)
		return;
	if (leader->left_ns)
		leader->missed = true;
	leader->left_ns = now_ns;
}

static __always_inline void switch_in(struct task_struct *task, __u64 now_ns)
{
	__u32 id = task->pid;
	struct leader *leader = bpf_map_lookup_elem(&leaders, &id);

	if (!leader)
		return;
	if (leader->left_ns)
		leader->off_cpu_ns += length_since(now_ns, leader->left_ns);
	else
		leader->missed = true;
	leader->left_ns = 0;
}

#endif
