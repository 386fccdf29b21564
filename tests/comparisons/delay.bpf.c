// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Makes a system call of one process longer. What is attached to a tracepoint runs in the order
 * in which it was: what is spent here, before kernel-delay takes the time, is time in the call.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long orig_ax;
} __attribute__((preserve_access_index));
#define NUMBER orig_ax
#else
struct pt_regs {
	int syscallno;
} __attribute__((preserve_access_index));
#define NUMBER syscallno
#endif

#define MOST_TURNS 2000

struct {
	__u32 tgid;
	__u32 number;
} const volatile options SEC(".rodata.options");

/* User space sets it, from window to window. */
volatile __u64 delay_ns SEC(".bss.delay");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("raw_tp/sys_exit")
int delay(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (struct pt_regs *)ctx->args[0];
	__u64 since_ns;

	if (bpf_get_current_pid_tgid() >> 32 != options.tgid ||
	    (__u32)BPF_CORE_READ(regs, NUMBER) != options.number)
		return 0;
	since_ns = bpf_ktime_get_ns();
	for (int i = 0; i < MOST_TURNS; i++)
		if (bpf_ktime_get_ns() - since_ns >= delay_ns)
			break;
	return 0;
}
