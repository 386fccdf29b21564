// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * How many upcalls the kernel's datapath sends in each window, and how many
 * fail. The windows are those of capture.bpf.c, whose struct control user space
 * puts in the place of the one here. An object of its own, as it can be loaded
 * only where the module openvswitch is.
 */
#include "openvswitch.h"
#include "upcall_records.h"
#include "window.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct upcall_options upcall_options SEC(".rodata.upcalls");
struct upcall_control upcall_control SEC(".data.upcalls");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct upcall_counter_key);
	__type(value, __u64);
} upcall_counters SEC(".maps");

static __always_inline __u64 *find_counter(const struct upcall_counter_key *key)
{
	__u64 *counter = bpf_map_lookup_elem(&upcall_counters, key);
	__u64 zero = 0;

	if (counter)
		return counter;
	bpf_map_update_elem(&upcall_counters, key, &zero, BPF_NOEXIST);
	return bpf_map_lookup_elem(&upcall_counters, key);
}

SEC("fexit/ovs_dp_upcall")
int BPF_PROG(on_dp_upcall_exit, struct datapath *dp, struct sk_buff *skb,
	     const struct sw_flow_key *key, const struct dp_upcall_info *upcall, __u32 cutlen,
	     int result)
{
	struct upcall_counter_key counter_key = {};
	struct timestamp timestamp;
	__u64 *counter;

	take_timestamp(&timestamp);
	if (!is_within(&timestamp, timestamp.now_ns) ||
	    !in_network(dp, upcall_options.network_inode))
		return 0;
	counter_key.epoch = timestamp.epoch;
	counter_key.cpu = bpf_get_smp_processor_id();
	counter_key.error = -result;
	counter = find_counter(&counter_key);
	count_up(counter ? counter : &upcall_control.lost);
	return 0;
}
