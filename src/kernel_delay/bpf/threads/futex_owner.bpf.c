// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Does this kernel let an iterator read another process's memory? If it loads
 * this it does; capture.bpf.c has the one that does something, and it needs a yes.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("iter.s/task")
int read_user_memory(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 word = 0;

	if (task && bpf_task_pt_regs(task))
		bpf_copy_from_user_task(&word, sizeof(word), NULL, task, 0);
	return 0;
}
