/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the programs read of the types that ovs-vswitchd keeps its datapaths' flows in
 * (ofproto/ofproto-dpif-upcall.c, lib/dpif-provider.h): to the last field that is read, and
 * laid out as on any 64-bit Linux. struct udpif is the same in Open vSwitch 2.17 to 4.0.
 */
#ifndef KERNEL_DELAY_UDPIF_H
#define KERNEL_DELAY_UDPIF_H

#include <linux/types.h>
#include <stdbool.h>

struct dpif {
	const void *dpif_class;
	char *base_name;
	char *full_name;
};

struct udpif;

struct revalidator {
	struct udpif *udpif;
};

struct udpif {
	void *list_node[2];
	struct dpif *dpif;
	void *backer;
	void *handlers;
	__u32 n_handlers;
	struct revalidator *revalidators;
	__u32 n_revalidators;
	int exit_latch[2];
	void *reval_seq;
	bool reval_exit;
	void *reval_barrier;
	void *dump;
	__s64 dump_duration; /* ms */
	void *dump_seq;
	bool enable_ufid;
	bool pause;
	int pause_latch[2];
	void *pause_barrier;
	void *ukeys;
	__u32 max_n_flows;
	__u32 avg_n_flows;
	__u32 flow_limit;
	__u32 n_flows;
};

/* pthread_mutex_t of glibc; and where it was locked, a pointer. */
#if defined(__TARGET_ARCH_x86)
#define OVS_MUTEX_WORDS 6
#elif defined(__TARGET_ARCH_arm64)
#define OVS_MUTEX_WORDS 7
#endif

struct dpif_flow_stats {
	__u64 n_packets;
	__u64 n_bytes;
	__s64 used; /* ms; 0: never */
	__u16 tcp_flags;
};

/* The same in Open vSwitch 3.2 to 4.0. */
struct udpif_key {
	void *cmap_node;
	const void *key;
	__u64 key_len;
	const void *mask;
	__u64 mask_len;
	__u32 ufid[4];
	bool ufid_present;
	__u32 hash;
	__u32 pmd_id;
	__u64 mutex[OVS_MUTEX_WORDS];
	struct dpif_flow_stats stats;
	const char *dp_layer;
	__s64 created; /* ms */
};

#endif
