// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What Open vSwitch's revalidators make of each flow: reported once when it is first
 * seen, and then when it is not just kept as it is.
 */
#include "ovs_event.h"
#include "udpif.h"

/* struct pt_regs, which usdt.bpf.h needs */
#include <linux/ptrace.h>

#include <bpf/usdt.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* More than other_config:flow-limit is, unless somebody set it. */
#define MAX_FLOWS 262144

/* What a flow has that another at its address would not. */
struct seen_flow {
	__u64 ufid;
	__u64 created_ms;
};

/* By the address of the struct udpif_key. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u64);
	__type(value, struct seen_flow);
} seen_flows SEC(".maps");

static __always_inline bool is_known(const struct seen_flow *seen, const struct seen_flow *flow)
{
	return seen && seen->ufid == flow->ufid && seen->created_ms == flow->created_ms;
}

/* Notes that a flow was seen; false where there is no place, and it would be new each time. */
static __always_inline bool note_flow(__u64 address, const struct seen_flow *flow)
{
	if (!bpf_map_update_elem(&seen_flows, &address, flow, BPF_ANY))
		return true;
	__sync_fetch_and_add(&control.flows_untracked, 1);
	return false;
}

/* Whether the flow is to be reported as new: not known, and not older than the start. */
static __always_inline bool is_new_flow(__u64 address, const struct seen_flow *flow, __u32 result)
{
	bool known = is_known(bpf_map_lookup_elem(&seen_flows, &address), flow);

	if (result == UKEY_DELETE)
		bpf_map_delete_elem(&seen_flows, &address);
	else if (!known && !note_flow(address, flow))
		return false;
	if (known)
		return false;
	if (flow->created_ms >= options.start_ms)
		return true;
	__sync_fetch_and_add(&control.flows_before, 1);
	return false;
}

/*
 * The verifier has to see the bound in the register that is then used: hence the barrier. And in 32
 * bits, see at_most() in upcall.bpf.c.
 */
static __always_inline __u32 copy_bytes(void *room, const void *from, __u64 length)
{
	__u32 size = length;

	barrier_var(size);
	if (size > options.key_bytes)
		size = options.key_bytes;
	return bpf_probe_read_user(room, size, from) ? 0 : size;
}

static __always_inline void copy_datapath(struct flow_event *event, const struct udpif *udpif)
{
	struct dpif *dpif;
	char *name;

	if (bpf_probe_read_user(&dpif, sizeof(dpif), &udpif->dpif))
		return;
	if (bpf_probe_read_user(&name, sizeof(name), &dpif->full_name))
		return;
	bpf_probe_read_user_str(event->datapath, sizeof(event->datapath), name);
}

static __always_inline int report(const struct udpif *udpif, const struct udpif_key *flow,
				  __u32 result, __u32 reason, bool in_sweep, bool is_new)
{
	__u64 size = sizeof(struct flow_event) + 2 * (__u64)options.key_bytes;
	struct flow_event *event;

	event = bpf_ringbuf_reserve(&events, size, 0);
	if (!event)
		return count_lost(EVENT_FLOW_RESULT);
	begin_event(&event->event, EVENT_FLOW_RESULT, bpf_ktime_get_ns());
	__builtin_memset(&event->datapath, 0,
			 sizeof(*event) - __builtin_offsetof(struct flow_event, datapath));
	copy_datapath(event, udpif);
	if (flow->dp_layer)
		bpf_probe_read_user_str(event->layer, sizeof(event->layer), flow->dp_layer);
	__builtin_memcpy(event->ufid, flow->ufid, sizeof(event->ufid));
	event->result = result;
	event->reason = reason;
	event->in_sweep = in_sweep;
	event->is_new = is_new;
	event->created_ms = flow->created;
	event->used_ms = flow->stats.used;
	event->n_packets = flow->stats.n_packets;
	event->n_bytes = flow->stats.n_bytes;
	event->pmd_id = flow->pmd_id;
	event->key_len = flow->key_len;
	event->mask_len = flow->mask_len;
	event->key_size = copy_bytes(event + 1, flow->key, flow->key_len);
	event->mask_size =
		copy_bytes((void *)(event + 1) + options.key_bytes, flow->mask, flow->mask_len);
	submit(event);
	return 0;
}

static __always_inline int see(const struct udpif *udpif, const struct udpif_key *ukey,
			       __u32 result, __u32 reason, bool in_sweep)
{
	__u64 address = (__u64)ukey;
	struct seen_flow identity;
	struct udpif_key flow;
	bool is_new;

	if (!in_target())
		return 0;
	if (bpf_probe_read_user(&flow, sizeof(flow), ukey))
		return count_lost(EVENT_FLOW_RESULT);
	identity.ufid = (__u64)flow.ufid[0] << 32 | flow.ufid[1];
	identity.created_ms = flow.created;
	is_new = is_new_flow(address, &identity, result);
	if (result == UKEY_KEEP && !is_new && !options.report_kept)
		return 0;
	return report(udpif, &flow, result, reason, in_sweep, is_new);
}

SEC("usdt")
int BPF_USDT(on_flow_result, const struct udpif *udpif, const struct udpif_key *ukey, __u32 result,
	     __u32 reason)
{
	return see(udpif, ukey, result, reason, false);
}

SEC("usdt")
int BPF_USDT(on_flow_sweep_result, const struct udpif *udpif, const struct udpif_key *ukey,
	     __u32 result, __u32 reason)
{
	return see(udpif, ukey, result, reason, true);
}
