// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Programs that do nothing, where kernel-delay's do something: what no tool can be below.
 * With READ_CLOCK they do what each that tells how long something took must do, too;
 * with SOFT_IRQS_ALONE they are attached there alone.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static int nothing(void)
{
#ifdef READ_CLOCK
	return !bpf_ktime_get_ns();
#else
	return 0;
#endif
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#ifndef SOFT_IRQS_ALONE
SEC("tp_btf/sys_enter")
int sys_enter(void *context)
{
	return nothing();
}

SEC("tp_btf/sys_exit")
int sys_exit(void *context)
{
	return nothing();
}

SEC("tp_btf/sched_switch")
int sched_switch(void *context)
{
	return nothing();
}

SEC("tp_btf/sched_waking")
int sched_waking(void *context)
{
	return nothing();
}
#endif

SEC("tp_btf/softirq_entry")
int softirq_entry(void *context)
{
	return nothing();
}

SEC("tp_btf/softirq_exit")
int softirq_exit(void *context)
{
	return nothing();
}
