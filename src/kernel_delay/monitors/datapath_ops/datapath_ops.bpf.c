// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What ovs-vswitchd asks of the kernel's datapath by netlink, and the answers:
 * the functions that carry it out run in the thread that asks.
 *
 * A program at a function can be preempted, and is not run for any other thread
 * on that CPU until it is back (kernel/bpf/trampoline.c:__bpf_prog_enter_recur(),
 * 5.14 to 7.2; all the time where kernels are preemptible, as from 7.0 on). So
 * each has a fallback at the same function, with a count of its own. Whichever
 * of the two is run first does the work, and notes it for the other.
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
	__u32 replied; /* the answer's echo was reported */
	__u32 ended; /* the end was reported */
};

enum reporter { PROGRAM, FALLBACK };

/* The operation that a thread is in, or was in last, by the thread's id. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_THREADS);
	__type(key, __u32);
	__type(value, struct begun);
} under_way SEC(".maps");

/* What was noted at the operation's begin, NULL where that was missed. */
static __always_inline struct begun *begun_by(const struct genl_info *info)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct begun *begun = bpf_map_lookup_elem(&under_way, &id);

	if (!begun || begun->portid != BPF_CORE_READ(info, snd_portid) ||
	    begun->sequence != BPF_CORE_READ(info, snd_seq))
		return NULL;
	return begun;
}

static __always_inline int enter(const struct genl_info *info)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct begun begun = {};

	if (!in_target() || begun_by(info))
		return 0;
	begun.entered_ns = bpf_ktime_get_ns();
	begun.portid = BPF_CORE_READ(info, snd_portid);
	begun.sequence = BPF_CORE_READ(info, snd_seq);
	bpf_map_update_elem(&under_way, &id, &begun, BPF_ANY);
	return 0;
}

static __always_inline void count_reported(__u32 type, enum reporter reporter)
{
	__u64 *counts = reporter == PROGRAM ? control.by_program : control.by_fallback;

	__sync_fetch_and_add(&counts[type], 1);
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

static __always_inline int report_in(__u64 entered_ns, const void *message, __u32 length,
				     __u32 room, __u32 operation, int result)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct operation_event *event;

	event = bpf_ringbuf_reserve(&events, sizeof(*event) + room, 0);
	if (!event)
		return count_lost(EVENT_OPERATION);
	begin_event(&event->event, EVENT_OPERATION, now_ns);
	event->entered_ns = entered_ns;
	event->operation = operation;
	event->error = -result;
	event->message_len = length;
	event->message_size = copy_message(event + 1, room, message, length);
	submit(event);
	return 0;
}

/* Of an operation whose begin was missed nothing is noted: the program alone reports its end. */
static __always_inline int report(const struct genl_info *info, __u32 operation, int result,
				  enum reporter reporter)
{
	const struct nlmsghdr *message;
	struct begun *begun;
	__u64 entered_ns = 0;
	__u32 length;

	if (!in_target())
		return 0;
	begun = begun_by(info);
	if (begun ? begun->ended : reporter == FALLBACK)
		return 0;
	if (begun) {
		begun->ended = 1;
		entered_ns = begun->entered_ns;
	}
	count_reported(EVENT_OPERATION, reporter);
	message = BPF_CORE_READ(info, nlhdr);
	length = BPF_CORE_READ(message, nlmsg_len);
	if (length <= SMALL_MESSAGE)
		return report_in(entered_ns, message, length, SMALL_MESSAGE, operation, result);
	if (length <= LARGE_MESSAGE)
		return report_in(entered_ns, message, length, LARGE_MESSAGE, operation, result);
	return report_in(entered_ns, message, length, LARGEST_MESSAGE, operation, result);
}

SEC("fentry/ovs_flow_cmd_new")
int BPF_PROG(on_flow_new, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fentry/ovs_flow_cmd_new")
int BPF_PROG(on_flow_new_fallback, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_new")
int BPF_PROG(on_flow_new_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_NEW, result, PROGRAM);
}

SEC("fexit/ovs_flow_cmd_new")
int BPF_PROG(on_flow_new_exit_fallback, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_NEW, result, FALLBACK);
}

SEC("fentry/ovs_flow_cmd_set")
int BPF_PROG(on_flow_set, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fentry/ovs_flow_cmd_set")
int BPF_PROG(on_flow_set_fallback, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_set")
int BPF_PROG(on_flow_set_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_SET, result, PROGRAM);
}

SEC("fexit/ovs_flow_cmd_set")
int BPF_PROG(on_flow_set_exit_fallback, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_SET, result, FALLBACK);
}

SEC("fentry/ovs_flow_cmd_del")
int BPF_PROG(on_flow_del, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fentry/ovs_flow_cmd_del")
int BPF_PROG(on_flow_del_fallback, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_del")
int BPF_PROG(on_flow_del_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_DEL, result, PROGRAM);
}

SEC("fexit/ovs_flow_cmd_del")
int BPF_PROG(on_flow_del_exit_fallback, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_DEL, result, FALLBACK);
}

SEC("fentry/ovs_flow_cmd_get")
int BPF_PROG(on_flow_get, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fentry/ovs_flow_cmd_get")
int BPF_PROG(on_flow_get_fallback, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_flow_cmd_get")
int BPF_PROG(on_flow_get_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_GET, result, PROGRAM);
}

SEC("fexit/ovs_flow_cmd_get")
int BPF_PROG(on_flow_get_exit_fallback, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_FLOW_GET, result, FALLBACK);
}

SEC("fentry/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_execute, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fentry/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_execute_fallback, struct sk_buff *skb, struct genl_info *info)
{
	return enter(info);
}

SEC("fexit/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_execute_exit, struct sk_buff *skb, struct genl_info *info, int result)
{
	return report(info, OPERATION_PACKET_EXECUTE, result, PROGRAM);
}

SEC("fexit/ovs_packet_cmd_execute")
int BPF_PROG(on_packet_execute_exit_fallback, struct sk_buff *skb, struct genl_info *info,
	     int result)
{
	return report(info, OPERATION_PACKET_EXECUTE, result, FALLBACK);
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
static __always_inline int report_reply(struct sk_buff *skb, __u32 portid, enum reporter reporter)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct begun *begun;
	void *message;
	__u32 length;

	if (!in_target())
		return 0;
	begun = bpf_map_lookup_elem(&under_way, &id);
	if (!begun || begun->portid != portid || begun->replied || begun->ended)
		return 0;
	begun->replied = 1;
	count_reported(EVENT_REPLY, reporter);
	message = BPF_CORE_READ(skb, data);
	length = BPF_CORE_READ(skb, len);
	if (length <= SMALL_MESSAGE)
		return report_reply_in(message, length, SMALL_MESSAGE);
	if (length <= LARGE_MESSAGE)
		return report_reply_in(message, length, LARGE_MESSAGE);
	return report_reply_in(message, length, LARGEST_MESSAGE);
}

SEC("fentry/netlink_unicast")
int BPF_PROG(on_unicast, struct sock *sender, struct sk_buff *skb, __u32 portid)
{
	return report_reply(skb, portid, PROGRAM);
}

SEC("fentry/netlink_unicast")
int BPF_PROG(on_unicast_fallback, struct sock *sender, struct sk_buff *skb, __u32 portid)
{
	return report_reply(skb, portid, FALLBACK);
}
