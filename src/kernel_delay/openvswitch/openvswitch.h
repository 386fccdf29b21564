/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The few fields of the kernel's datapath that the programs read; as in
 * kernel.h, libbpf sets the offsets from the running kernel's and its module's
 * BTF. net/openvswitch/{datapath,flow,vport}.h, the same from 5.14 to 6.18.
 */
#ifndef KERNEL_DELAY_OPENVSWITCH_H
#define KERNEL_DELAY_OPENVSWITCH_H

#include "kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct net {
	struct ns_common ns;
};

struct net_device {
	char name[16];
};

struct sk_buff {
	unsigned int len;
	unsigned int data_len;
	unsigned char *data;
};

struct vport {
	struct net_device *dev;
	__u16 port_no;
	struct hlist_node dp_hash_node;
};

struct datapath {
	struct hlist_head *ports;
	struct {
		struct net *net;
	} net;
};

struct sw_flow_key {
	struct {
		__u16 in_port;
	} phy;
	__u32 recirc_id;
};

struct dp_upcall_info {
	__u8 cmd;
};

struct nlattr {
	__u16 nla_len;
	__u16 nla_type;
};

struct nlmsghdr {
	__u32 nlmsg_len;
};

struct genl_info {
	__u32 snd_seq;
	__u32 snd_portid;
	struct nlmsghdr *nlhdr;
	struct nlattr **attrs;
};

#pragma clang attribute pop

#define DP_VPORT_HASH_BUCKETS 1024
#define NLA_HDRLEN 4
#define NLA_TYPE_MASK 0x3fff

/* enum ovs_packet_cmd and ovs_packet_attr, include/uapi/linux/openvswitch.h */
#define OVS_PACKET_CMD_ACTION 2
#define OVS_PACKET_ATTR_PACKET 1
#define OVS_PACKET_ATTR_KEY 2

/* The number of the datapath's own port, which has its name. */
#define OVSP_LOCAL 0

/* Ports in one bucket of the hash table; more than a table of a million has. */
#define PORTS_IN_BUCKET 32

/* Is @dp in the network namespace of that inode, as each ovs-vswitchd's own are? */
static __always_inline bool in_network(const struct datapath *dp, __u32 inode)
{
	return BPF_CORE_READ(dp, net.net, ns.inum) == inode;
}

/* Reads the name of a port of @dp; an empty one if it has no such port. */
static __always_inline void port_name(const struct datapath *dp, __u16 port_no, char *name)
{
	struct hlist_head *buckets = BPF_CORE_READ(dp, ports);
	struct hlist_node *node;

	name[0] = '\0';
	node = BPF_CORE_READ(&buckets[port_no & (DP_VPORT_HASH_BUCKETS - 1)], first);
	for (int position = 0; node && position < PORTS_IN_BUCKET; position++) {
		struct vport *vport =
			(void *)node - bpf_core_field_offset(struct vport, dp_hash_node);

		if (BPF_CORE_READ(vport, port_no) == port_no) {
			struct net_device *dev = BPF_CORE_READ(vport, dev);

			bpf_probe_read_kernel_str(name, sizeof(dev->name), &dev->name);
			return;
		}
		node = BPF_CORE_READ(node, next);
	}
}

#endif
