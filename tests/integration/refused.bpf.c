// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Programs that every kernel's verifier refuses, each for a reason of its own. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 values[4];
__u32 place;

/* As many instructions as have a log that is longer than what is kept of it. */
#define LONG_WAY asm volatile(".rept 20000\nr0 = 1\n.endr" ::: "r0")

SEC("tp_btf/sched_switch")
int out_of_bounds(void *ctx)
{
	return values[*(volatile __u32 *)&place];
}

SEC("tp_btf/sched_switch")
int long_way_out_of_bounds(void *ctx)
{
	LONG_WAY;
	return values[*(volatile __u32 *)&place];
}

SEC("tp_btf/sched_switch")
int no_such_helper(void *ctx)
{
	long (*helper)(void) = (void *)100000;

	return helper();
}
