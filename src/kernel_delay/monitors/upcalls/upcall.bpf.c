// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A packet's trip from the kernel's datapath through ovs-vswitchd and back.
 */
#include "ovs_event.h"
#include "openvswitch.h"
#include "udpif.h"

/* struct pt_regs, which usdt.bpf.h needs */
#include <linux/ptrace.h>

#include <bpf/usdt.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Upcalls under way: when ovs_dp_upcall() was entered, by its packet. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} under_way SEC(".maps");

struct port {
	__u64 datapath;
	__u64 number;
};

union port_label {
	char name[IFNAMSIZ];
	__u64 words[IFNAMSIZ / sizeof(__u64)];
};

/* Ports that were reported, and by which names. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port);
	__type(value, union port_label);
} ports SEC(".maps");

static __always_inline struct upcall_event *reserve_event(void)
{
	__u64 size = sizeof(struct upcall_event) + options.packet_bytes + options.key_bytes;

	return bpf_ringbuf_reserve(&events, size, 0);
}

static __always_inline void begin_upcall_event(struct upcall_event *event, __u32 type,
					       __u64 time_ns)
{
	begin_event(&event->event, type, time_ns);
	__builtin_memset(&event->datapath, 0,
			 sizeof(*event) - __builtin_offsetof(struct upcall_event, datapath));
}

/*
 * The verifier has to see the bound in the register that is then used: hence the barrier. And in 32
 * bits, as helpers take a size: until 5.16, commit b9979db83401, it forgets there a bound in 64.
 */
static __always_inline __u32 at_most(__u32 length, __u32 room)
{
	barrier_var(length);
	if (length > room)
		length = room;
	return length;
}

static __always_inline void copy_user_packet(struct upcall_event *event, const void *packet,
					     __u32 length)
{
	__u32 size = at_most(length, options.packet_bytes);

	event->packet_len = length;
	if (!bpf_probe_read_user(event + 1, size, packet))
		event->packet_size = size;
}

static __always_inline void copy_kernel_packet(struct upcall_event *event, const void *packet,
					       __u32 length)
{
	__u32 size = at_most(length, options.packet_bytes);

	if (!bpf_probe_read_kernel(event + 1, size, packet))
		event->packet_size = size;
}

static __always_inline void copy_key(struct upcall_event *event, const void *key, __u64 length)
{
	__u32 size = at_most(length, options.key_bytes);

	event->key_len = length;
	if (!bpf_probe_read_user((void *)(event + 1) + options.packet_bytes, size, key))
		event->key_size = size;
}

/* Lets user space know a port's name, before an upcall from it comes, and when it changes. */
static __always_inline void report_port(const struct datapath *dp, __u16 number)
{
	struct port port = {.datapath = (__u64)dp, .number = number};
	union port_label label = {}, *known;
	struct upcall_event *event;

	port_name(dp, number, label.name);
	known = bpf_map_lookup_elem(&ports, &port);
	if (known && known->words[0] == label.words[0] && known->words[1] == label.words[1])
		return;
	event = reserve_event();
	if (!event) {
		count_lost(EVENT_PORT);
		return;
	}
	begin_upcall_event(event, EVENT_PORT, bpf_ktime_get_ns());
	port_name(dp, OVSP_LOCAL, event->datapath);
	__builtin_memcpy(event->device, label.name, sizeof(event->device));
	event->in_port = number;
	submit(event);
	bpf_map_update_elem(&ports, &port, &label, BPF_ANY);
}

static __always_inline void report_dp_upcall(const struct datapath *dp, struct sk_buff *skb,
					     const struct sw_flow_key *key,
					     const struct dp_upcall_info *upcall, __u64 time_ns,
					     int error)
{
	struct upcall_event *event = reserve_event();
	__u16 in_port;

	if (!event) {
		count_lost(EVENT_DP_UPCALL);
		return;
	}
	begin_upcall_event(event, EVENT_DP_UPCALL, time_ns);
	in_port = BPF_CORE_READ(key, phy.in_port);
	port_name(dp, OVSP_LOCAL, event->datapath);
	port_name(dp, in_port, event->device);
	if (BPF_CORE_READ(upcall, cmd) == OVS_PACKET_CMD_ACTION)
		event->kind = UPCALL_ACTION;
	event->in_port = in_port;
	event->recirc_id = BPF_CORE_READ(key, recirc_id);
	event->error = error;
	event->packet_len = BPF_CORE_READ(skb, len);
	event->linear_len = event->packet_len - BPF_CORE_READ(skb, data_len);
	copy_kernel_packet(event, BPF_CORE_READ(skb, data), event->linear_len);
	submit(event);
}

/* The tracepoint is where ovs_dp_upcall() begins, before its result is known. */
SEC("tp_btf/ovs_dp_upcall")
int BPF_PROG(on_dp_upcall, struct datapath *dp, struct sk_buff *skb, struct sw_flow_key *key,
	     struct dp_upcall_info *upcall)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 packet = (__u64)skb;

	/* They never are NULL, but Linux 6.12's verifier wants to see it. */
	if (!dp || !skb || !key || !upcall)
		return 0;
	if (!in_network(dp, options.network_inode))
		return 0;
	if (!options.report_sent)
		report_port(dp, BPF_CORE_READ(key, phy.in_port));
	if (!control.results_unknown) {
		if (bpf_map_update_elem(&under_way, &packet, &now_ns, BPF_ANY))
			count_lost(EVENT_DP_UPCALL);
	} else if (options.report_sent) {
		report_dp_upcall(dp, skb, key, upcall, now_ns, 0);
	}
	return 0;
}

SEC("fexit/ovs_dp_upcall")
int BPF_PROG(on_dp_upcall_exit, struct datapath *dp, struct sk_buff *skb,
	     const struct sw_flow_key *key, const struct dp_upcall_info *upcall, __u32 cutlen,
	     int result)
{
	__u64 packet = (__u64)skb;
	__u64 *entered_ns;

	entered_ns = bpf_map_lookup_elem(&under_way, &packet);
	if (!entered_ns)
		return 0;
	if (result || options.report_sent)
		report_dp_upcall(dp, skb, key, upcall, *entered_ns, -result);
	bpf_map_delete_elem(&under_way, &packet);
	return 0;
}

/* In the thread of ovs-vswitchd that sends the packet. */
SEC("fentry/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_cmd_execute, struct sk_buff *skb, struct genl_info *info)
{
	struct upcall_event *event;
	struct nlattr **attributes;
	struct nlattr *packet = NULL;

	if (!in_target())
		return 0;
	event = reserve_event();
	if (!event)
		return count_lost(EVENT_PACKET_CMD_EXECUTE);
	begin_upcall_event(event, EVENT_PACKET_CMD_EXECUTE, bpf_ktime_get_ns());
	attributes = BPF_CORE_READ(info, attrs);
	bpf_probe_read_kernel(&packet, sizeof(packet), attributes + OVS_PACKET_ATTR_PACKET);
	event->packet_len = BPF_CORE_READ(packet, nla_len);
	if (event->packet_len >= NLA_HDRLEN)
		event->packet_len -= NLA_HDRLEN;
	copy_kernel_packet(event, (void *)packet + NLA_HDRLEN, event->packet_len);
	submit(event);
	return 0;
}

struct receipt {
	const char *datapath;
	__u32 kind; /* enum upcall_kind */
	__u32 packet_len;
	const void *packet;
	const void *key;
	__u64 key_len;
};

static __always_inline int report_receipt(const struct receipt *receipt)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct upcall_event *event = reserve_event();

	if (!event)
		return count_lost(EVENT_RECV_UPCALL);
	begin_upcall_event(event, EVENT_RECV_UPCALL, now_ns);
	bpf_probe_read_user_str(event->datapath, sizeof(event->datapath), receipt->datapath);
	event->kind = receipt->kind;
	copy_user_packet(event, receipt->packet, receipt->packet_len);
	copy_key(event, receipt->key, receipt->key_len);
	submit(event);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_recv_upcall, const char *datapath, __u32 type, const void *packet, __u32 packet_len,
	     const void *key, __u64 key_len)
{
	struct receipt receipt = {
		.datapath = datapath,
		.kind = type,
		.packet_len = packet_len,
		.packet = packet,
		.key = key,
		.key_len = key_len,
	};

	return in_target() ? report_receipt(&receipt) : 0;
}

/* The beginning of struct ofpbuf, include/openvswitch/ofpbuf.h of Open vSwitch 2.17 to 4.0. */
struct ofpbuf {
	void *base;
	void *data;
	__u32 size;
};

/* A message of the kernel's: struct nlmsghdr, genlmsghdr and ovs_header, and then attributes. */
#define UPCALL_COMMAND 16
#define UPCALL_ATTRIBUTES 24
#define UPCALL_MAX_ATTRIBUTES 10

struct nl_attribute {
	__u16 length;
	__u16 type;
};

struct receiving {
	const struct dpif *dpif;
	const struct ofpbuf *buf;
};

/* Calls of dpif_recv() under way, by their thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct receiving);
} receiving SEC(".maps");

SEC("kprobe")
int BPF_KPROBE(on_dpif_recv, const struct dpif *dpif, __u32 handler_id, const void *upcall,
	       const struct ofpbuf *buf)
{
	struct receiving call = {.dpif = dpif, .buf = buf};
	__u32 id = bpf_get_current_task_btf()->pid;

	if (in_target() && bpf_map_update_elem(&receiving, &id, &call, BPF_ANY))
		count_lost(EVENT_RECV_UPCALL);
	return 0;
}

/* Finds the packet and its key in a message of the kernel's; 0, or -1 for another message. */
static __always_inline int parse_message(const struct ofpbuf *buf, struct receipt *receipt)
{
	__u32 at = UPCALL_ATTRIBUTES;
	struct nl_attribute attribute;
	__u8 command;

	if (bpf_probe_read_user(&command, sizeof(command), buf->data + UPCALL_COMMAND))
		return -1;
	receipt->kind = command == OVS_PACKET_CMD_ACTION ? UPCALL_ACTION : UPCALL_MISS;
	for (int n = 0; n < UPCALL_MAX_ATTRIBUTES && at + NLA_HDRLEN <= buf->size; n++) {
		if (bpf_probe_read_user(&attribute, sizeof(attribute), buf->data + at) ||
		    attribute.length < NLA_HDRLEN)
			return -1;
		if ((attribute.type & NLA_TYPE_MASK) == OVS_PACKET_ATTR_KEY) {
			receipt->key = buf->data + at + NLA_HDRLEN;
			receipt->key_len = attribute.length - NLA_HDRLEN;
		} else if ((attribute.type & NLA_TYPE_MASK) == OVS_PACKET_ATTR_PACKET) {
			receipt->packet = buf->data + at + NLA_HDRLEN;
			receipt->packet_len = attribute.length - NLA_HDRLEN;
		}
		at += (attribute.length + 3) & ~3;
	}
	return receipt->key && receipt->packet ? 0 : -1;
}

SEC("kprobe")
int BPF_KRETPROBE(on_dpif_recv_return, int error)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct receipt receipt = {};
	struct receiving *call;
	struct ofpbuf buf;
	struct dpif dpif;

	if (!in_target())
		return 0;
	call = bpf_map_lookup_elem(&receiving, &id);
	if (!call)
		return 0;
	if (!error) {
		if (bpf_probe_read_user(&dpif, sizeof(dpif), call->dpif) ||
		    bpf_probe_read_user(&buf, sizeof(buf), call->buf) ||
		    parse_message(&buf, &receipt)) {
			count_lost(EVENT_RECV_UPCALL);
		} else {
			receipt.datapath = dpif.full_name;
			report_receipt(&receipt);
		}
	}
	bpf_map_delete_elem(&receiving, &id);
	return 0;
}

/* The beginning of struct dpif_flow_put, lib/dpif.h of Open vSwitch 2.17 to 4.0. */
struct dpif_flow_put {
	__u32 flags;
	const void *key;
	__u64 key_len;
	const void *mask;
	__u64 mask_len;
	const void *actions;
	__u64 actions_len;
	const void *ufid;
};

SEC("usdt")
int BPF_USDT(on_flow_put, const void *dpif, const struct dpif_flow_put *put)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct dpif_flow_put flow = {};
	struct upcall_event *event;

	if (!in_target())
		return 0;
	event = reserve_event();
	if (!event)
		return count_lost(EVENT_FLOW_PUT);
	begin_upcall_event(event, EVENT_FLOW_PUT, now_ns);
	if (!bpf_probe_read_user(&flow, sizeof(flow), put)) {
		copy_key(event, flow.key, flow.key_len);
		event->has_ufid = !bpf_probe_read_user(event->ufid, sizeof(event->ufid), flow.ufid);
	}
	submit(event);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_flow_execute, const void *dpif, const void *execute, const void *packet,
	     __u32 packet_len)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct upcall_event *event;

	if (!in_target())
		return 0;
	event = reserve_event();
	if (!event)
		return count_lost(EVENT_FLOW_EXECUTE);
	begin_upcall_event(event, EVENT_FLOW_EXECUTE, now_ns);
	copy_user_packet(event, packet, packet_len);
	submit(event);
	return 0;
}
