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

/* include/uapi/linux/if.h, 6.18 */
#define IFNAMSIZ 16

/* "system@", as user space has it before a datapath's name, and more. */
#define DATAPATH_NAME_LENGTH 32

/* Set before the programs are loaded, constant to the verifier. */
struct ovs_options {
	__u32 tgid; /* the target, as the initial PID namespace numbers it */
	__u32 pid_level; /* how deep the tool's PID namespace is; 0 is the initial one */
	__u32 network_inode; /* of the target's network namespace */
	__u32 packet_bytes; /* at most captured of a packet and of a key, multiples of 8 */
	__u32 key_bytes;
	__u32 report_sent; /* report the kernel's upcalls that succeed too, not its ports */
};

enum ovs_event_type {
	EVENT_RUN_START, /* USDT main:run_start */
	EVENT_POLL_BLOCK, /* USDT main:poll_block */
	EVENT_PORT, /* a datapath's port, before the first upcall from it */
	EVENT_DP_UPCALL, /* tracepoint openvswitch:ovs_dp_upcall, and what became of it */
	EVENT_RECV_UPCALL, /* USDT dpif_recv:recv_upcall */
	EVENT_FLOW_PUT, /* USDT dpif_netlink_operate__:op_flow_put */
	EVENT_FLOW_EXECUTE, /* USDT dpif_netlink_operate__:op_flow_execute */
	EVENT_PACKET_CMD_EXECUTE, /* ovs_packet_cmd_execute() */
	OVS_EVENT_TYPES,
};

/* Both sides share it while the programs run. */
struct ovs_control {
	__u64 lost; /* events that found no room, of all types and of each */
	__u64 lost_of_type[OVS_EVENT_TYPES];
	__u32 results_unknown; /* the programs can't see what ovs_dp_upcall() returns */
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

enum upcall_kind {
	UPCALL_MISS,
	UPCALL_ACTION,
};

/*
 * All types but those of the main loop; what a type does not have is 0. It is
 * followed by room for options.packet_bytes of the packet, and behind that for
 * options.key_bytes of the flow key.
 */
struct upcall_event {
	struct ovs_event event;
	char datapath[DATAPATH_NAME_LENGTH];
	char device[IFNAMSIZ]; /* the port's, as the kernel names it */
	__u32 kind; /* enum upcall_kind */
	__u32 in_port; /* as the kernel has it: DP_MAX_PORTS is none */
	__u32 recirc_id;
	__s32 error; /* positive; with which ovs_dp_upcall() failed */
	__u32 packet_len;
	__u32 linear_len; /* of the packet, in the kernel's linear area */
	__u32 key_len;
	__u32 packet_size; /* captured */
	__u32 key_size;
	__u32 reserved;
};

#endif
