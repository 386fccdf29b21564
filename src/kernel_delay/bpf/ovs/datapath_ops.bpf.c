// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What ovs-vswitchd asks of the kernel's datapath by netlink, and the answers:
 * the functions that carry it out run in the thread that asks.
 */
#include "ovs_event.h"
#include "openvswitch.h"

struct sock;

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MAX_THREADS 4096

struct begun {
	__u64 entered_ns;
	__u32 portid; /* of the socket that asks */
	__u32 sequence; /* of its message */
};

/* The operation that a thread is in, by the thread's id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct begun);
} under_way SEC(".maps");

static __always_inline int enter(const struct genl_info *info)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct begun begun = {};

	if (!in_target())
		return 0;
	begun.entered_ns = bpf_ktime_get_ns();
	begun.portid = BPF_CORE_READ(info, snd_portid);
	begun.sequence = BPF_CORE_READ(info, snd_seq);
	bpf_map_update_elem(&under_way, &id, &begun, BPF_ANY);
	return 0;
}

/*
 * When the thread entered, 0 where that was not seen: what is there then is of
 * an operation before, whose end was missed.
 */
static __always_inline __u64 leave(const struct genl_info *info)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct begun *begun = bpf_map_lookup_elem(&under_way, &id);
	__u64 entered_ns = 0;

	if (!begun)
		return 0;
	if (begun->portid == BPF_CORE_READ(info, snd_portid) &&
	    begun->sequence == BPF_CORE_READ(info, snd_seq))
		entered_ns = begun->entered_ns;
	bpf_map_delete_elem(&under_way, &id);
	return entered_ns;
}

/* Copies a message, as far as there is room; returns how much of it. */
static __always_inline __u32 copy_message(void *to, __u32 room, const void *message, __u32 length)
{
	__u64 size = length;

	barrier_var(size);
	if (size > room)
		size = room;
	return bpf_probe_read_kernel(to, size, message) ? 0 : size;
}

static __always_inline int report_in(const struct genl_info *info, const void *message,
				     __u32 length, __u32 room, __u32 operation, int result)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct operation_event *event;

	event = bpf_ringbuf_reserve(&events, sizeof(*event) + room, 0);
	if (!event) {
		leave(info);
		return count_lost(EVENT_OPERATION);
	}
	begin_event(&event->event, EVENT_OPERATION, now_ns);
	event->entered_ns = leave(info);
	event->operation = operation;
	event->error = -result;
	event->message_len = length;
	event->message_size = copy_message(event + 1, room, message, length);
	submit(event);
	return 0;
}

static __always_inline int report(const struct genl_info *info, __u32 operation, int result)
{
	const struct nlmsghdr *message;
	__u32 length;

	if (!in_target())
		return 0;
	message = BPF_CORE_READ(info, nlhdr);
	length = BPF_CORE_READ(message, nlmsg_len);
	if (length <= SMALL_MESSAGE)
		return report_in(info, message, length, SMALL_MESSAGE, operation, result);
	if (length <= LARGE_MESSAGE)
		return report_in(info, message, length, LARGE_MESSAGE, operation, result);
	return report_in(info, message, length, LARGEST_MESSAGE, operation, result);
}

SEC("fentry/ovs_flow_cmd_new")
int BPF_PROG(on_flow_new, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_new")
int BPF_PROG(on_flow_new_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_NEW, result);
}

SEC("fentry/ovs_flow_cmd_set")
int BPF_PROG(on_flow_set, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_set")
int BPF_PROG(on_flow_set_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_SET, result);
}

SEC("fentry/ovs_flow_cmd_del")
int BPF_PROG(on_flow_del, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_del")
int BPF_PROG(on_flow_del_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_DEL, result);
}

SEC("fentry/ovs_flow_cmd_get")
int BPF_PROG(on_flow_get, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_get")
int BPF_PROG(on_flow_get_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_GET, result);
}

SEC("fentry/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_execute, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_execute_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_PACKET_EXECUTE, result);
}

static __always_inline int report_reply_in(const void *message, __u32 length, __u32 room)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct reply_event *event;

	event = bpf_ringbuf_reserve(&events, sizeof(*event) + room, 0);
	if (!event)
		return count_lost(EVENT_REPLY);
	begin_event(&event->event, EVENT_REPLY, now_ns);
	event->message_len = length;
	event->message_size = copy_message(event + 1, room, message, length);
	submit(event);
	return 0;
}

/*
 * A flow as the answer to NLM_F_ECHO, or to a get. Upcalls of an executed
 * packet are sent from here too, but to other sockets.
 */
SEC("fentry/netlink_unicast")
int BPF_PROG(on_unicast, struct sock *sender, struct sk_buff *skb, __u32 portid)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct begun *begun;
	void *message;
	__u32 length;

	if (!in_target())
		return 0;
	begun = bpf_map_lookup_elem(&under_way, &id);
	if (!begun || begun->portid != portid)
		return 0;
	message = BPF_CORE_READ(skb, data);
	length = BPF_CORE_READ(skb, len);
	if (length <= SMALL_MESSAGE)
		return report_reply_in(message, length, SMALL_MESSAGE);
	if (length <= LARGE_MESSAGE)
		return report_reply_in(message, length, LARGE_MESSAGE);
	return report_reply_in(message, length, LARGEST_MESSAGE);
}
