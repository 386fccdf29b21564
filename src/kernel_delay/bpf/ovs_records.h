/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the programs that follow Open vSwitch share with user space: their
 * options, and the events that come through their ring buffer.
 *
 * Like records.h it is compiled three times, so it is kept to plain structs,
 * enums and integer constants. Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef KERNEL_DELAY_OVS_RECORDS_H
#define KERNEL_DELAY_OVS_RECORDS_H

/* include/linux/sched.h, 6.18 */
#define TASK_COMM_LEN 16

/* Set before the programs are loaded, constant to the verifier. */
struct ovs_options {
	__u32 tgid; /* the target, as the initial PID namespace numbers it */
	__u32 pid_level; /* how deep the tool's PID namespace is; 0 is the initial one */
};

enum ovs_event_type {
	EVENT_RUN_START, /* USDT main:run_start */
	EVENT_POLL_BLOCK, /* USDT main:poll_block */
	OVS_EVENT_TYPES,
};

/* Both sides share it while the programs run. */
struct ovs_control {
	__u64 lost; /* events that found no room, of all types and of each */
	__u64 lost_of_type[OVS_EVENT_TYPES];
};

/* An event, or the beginning of one that has more to say. */
struct ovs_event {
	__u64 time_ns;
	__u64 lost; /* ovs_control.lost when this one was made */
	__u32 type; /* enum ovs_event_type */
	__u32 cpu;
	__u32 tid; /* in the tool's PID namespace, 0 if it is not there */
	char comm[TASK_COMM_LEN];
};

#endif
