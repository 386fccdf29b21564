/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the programs that follow Open vSwitch share with user space: their
 * options, and the events that come through their ring buffer.
 *
 * cffi reads it too, so it is as plain as records.h. Times are CLOCK_MONOTONIC
 * nanoseconds.
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
	__u32 report_kept; /* report each result that a flow is kept, not the first alone */
	__u32 time_checks; /* how long each check of a flow takes */
	__u64 start_ms; /* flows that are older were there before */
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
	EVENT_REVALIDATOR_ROUND, /* USDT udpif_revalidator:sweep_done */
	EVENT_OPERATION, /* ovs_flow_cmd_new() and the like */
	EVENT_REPLY, /* netlink_unicast(), within these */
	EVENT_FLOW_RESULT, /* USDT revalidate:flow_result, revalidator_sweep__:flow_sweep_result */
	EVENT_FLOW_CHECKS, /* before the EVENT_REVALIDATOR_ROUND that they are of */
	OVS_EVENT_TYPES,
};

/* Both sides share it while the programs run. */
struct ovs_control {
	__u64 lost; /* events that found no room, of all types and of each */
	__u64 lost_of_type[OVS_EVENT_TYPES];
	__u64 by_program[OVS_EVENT_TYPES]; /* of hooks with a fallback: who reported them */
	__u64 by_fallback[OVS_EVENT_TYPES];
	__u32 results_unknown; /* the programs can't see what ovs_dp_upcall() returns */
	__u64 flows_before; /* that were there before the start, and seen since */
	__u64 flows_untracked; /* results of flows for which there was no place */
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
	__u32 has_ufid;
	__u32 ufid[4]; /* of the flow that is put */
};

/* enum reval_result, ofproto/ofproto-dpif-upcall.c of Open vSwitch 3.2 to 3.7. */
enum reval_result {
	UKEY_KEEP,
	UKEY_DELETE,
	UKEY_MODIFY,
	REVAL_RESULTS, /* and one slot for what is none of them */
};

#define REVAL_RESULT_SLOTS 4

/* A round of the revalidators of one struct udpif, from start_dump to sweep_done. */
struct revalidator_round {
	struct ovs_event event; /* of the leader; its time is the end */
	char datapath[DATAPATH_NAME_LENGTH];
	__u64 udpif; /* its address */
	__u64 start_ns;
	__u64 previous_stop_ns; /* 0: the first one that was seen */
	__u64 n_flows; /* in the datapath, at the start */
	__u64 dumped[REVAL_RESULT_SLOTS]; /* flows that were dumped, by their enum reval_result */
	__u64 swept[REVAL_RESULT_SLOTS]; /* those that the sweep then looked at */
	__u64 revalidated; /* flows that were translated anew */
	__u64 off_cpu_ns; /* the leader's */
	__u64 runnable_ns; /* of that */
	__u64 dump_duration_ms; /* this and what follows as struct udpif has it */
	__u32 poll_wait_ms;
	__u32 max_n_flows;
	__u32 avg_n_flows;
	__u32 flow_limit;
	__u32 flow_limit_before; /* at the start */
	__u32 is_udpif; /* its first revalidator knows it: the struct is laid out as we have it */
	__u32 account_known; /* the leader's context switches were all seen */
	__u32 removed; /* flows that the sweep removed from udpif: where functions are followed */
};

/* How many of a thread are kept in a round. */
#define SLOWEST_CHECKS 8

/* A check of one flow against the OpenFlow tables; its figures are as struct udpif_key has them. */
struct flow_check {
	__u64 ns; /* 0: there were fewer */
	__u64 waited_ns; /* of that, for a CPU */
	__u64 n_packets;
	__u64 created_ms;
	__u32 ufid[4];
	__u32 result; /* enum reval_result */
	__u32 reserved;
};

/* The checks of one thread in a round. */
struct flow_checks {
	struct ovs_event event; /* of the leader */
	__u64 udpif;
	__u64 start_ns; /* of the round */
	__u64 n_checks;
	__u64 checks_ns;
	__u64 waited_ns; /* of that, for a CPU */
	__u32 tid; /* who checked, in the tool's PID namespace */
	__u32 waits_known; /* the kernel says how long a thread waited for a CPU */
	struct flow_check slowest[SLOWEST_CHECKS]; /* without waits for a CPU, in no order */
};

/* Of "ovs", "tc", "dpdk" and the like: who keeps the flow. */
#define LAYER_LENGTH 16

/*
 * What a revalidator made of a flow, followed by room for options.key_bytes of its key, and
 * behind that for as many of its mask. Its figures are as struct udpif_key has them.
 */
struct flow_event {
	struct ovs_event event;
	char datapath[DATAPATH_NAME_LENGTH];
	char layer[LAYER_LENGTH];
	__u32 ufid[4];
	__u32 result; /* enum reval_result */
	__u32 reason; /* of a deletion: enum flow_del_reason of that Open vSwitch */
	__u32 in_sweep; /* else in the dump */
	__u32 is_new; /* not seen before, and not older than options.start_ms */
	__u64 created_ms;
	__u64 used_ms; /* 0: no packet yet */
	__u64 n_packets;
	__u64 n_bytes;
	__u32 pmd_id;
	__u32 key_len;
	__u32 mask_len;
	__u32 key_size; /* captured */
	__u32 mask_size;
	__u32 reserved;
};

/* By the function that carries them out, of net/openvswitch/datapath.c. */
enum operation {
	OPERATION_FLOW_NEW,
	OPERATION_FLOW_SET,
	OPERATION_FLOW_DEL,
	OPERATION_FLOW_GET,
	OPERATION_PACKET_EXECUTE,
};

/* Followed by the captured part of the request. */
struct operation_event {
	struct ovs_event event; /* its time is the end */
	__u64 entered_ns; /* 0: the begin was not seen */
	__u32 operation; /* enum operation */
	__s32 error; /* positive */
	__u32 message_len;
	__u32 message_size; /* captured */
};

/* What the kernel sends to who asks before the operation ends; followed by its captured part. */
struct reply_event {
	struct ovs_event event;
	__u32 message_len;
	__u32 message_size; /* captured */
};

/* Rooms for messages: one that does not fit in a small event gets a large one. */
#define SMALL_MESSAGE 1024
#define LARGE_MESSAGE 8192
#define LARGEST_MESSAGE 65536

#endif
