// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Programs that do nothing, where kernel-delay's do something: what no tool can be below. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("tp_btf/sys_enter")
int sys_enter(void *context)
{
	return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(void *context)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(void *context)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int sched_waking(void *context)
{
	return 0;
}
