/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Events to user space, through a ring buffer. One that finds no room is counted.
 */
#ifndef KERNEL_DELAY_OVS_EVENT_H
#define KERNEL_DELAY_OVS_EVENT_H

#include "kernel.h"
#include "ovs_records.h"

const volatile struct ovs_options options SEC(".rodata.options");

struct ovs_control control SEC(".data.control");

/* User space sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* A probe in a file fires in every process that has it mapped. */
static __always_inline bool in_target(void)
{
	return (__u32)bpf_get_current_task_btf()->tgid == options.tgid;
}

/* Counts an event for which there was no room; returns what a program returns. */
static __always_inline int count_lost(__u32 type)
{
	__sync_fetch_and_add(&control.lost, 1);
	__sync_fetch_and_add(&control.lost_of_type[type], 1);
	return 0;
}

/*
 * Fills in the head of a reserved event. Who reserves one tests at once, and
 * only there, whether it got it: up to Linux 6.3 the verifier takes a second
 * test for one that may fail, and misses the event's submission then.
 */
static __always_inline void begin_event(struct ovs_event *event, __u32 type, __u64 time_ns)
{
	event->time_ns = time_ns;
	event->lost = *(volatile __u64 *)&control.lost;
	event->type = type;
	event->cpu = bpf_get_smp_processor_id();
	event->tid = task_id(bpf_get_current_task_btf(), options.pid_level);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
}

/* User space looks often enough by itself: waking it would cost more than an event. */
static __always_inline void submit(void *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

#endif
