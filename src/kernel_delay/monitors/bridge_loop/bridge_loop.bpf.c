// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The passes of ovs-vswitchd's main loop: where one begins, and where it waits
 * for the next.
 */
#include "ovs_event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline int report(__u32 type)
{
	struct ovs_event *event;

	if (!in_target())
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return count_lost(type);
	begin_event(event, type, bpf_ktime_get_ns());
	submit(event);
	return 0;
}

SEC("kprobe")
int on_run_start(struct pt_regs *regs)
{
	return report(EVENT_RUN_START);
}

SEC("kprobe")
int on_poll_block(struct pt_regs *regs)
{
	return report(EVENT_POLL_BLOCK);
}
