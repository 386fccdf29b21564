// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Which process a PID means. In a PID namespace of its own (a container) the
 * tool sees other numbers than the kernel's programs do, so it asks here for
 * the number that the initial namespace has for one that it sees.
 */
#include "kernel.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct namespace_query query SEC(".data.query");
struct namespace_answer answer SEC(".data.answer");

SEC("iter/task")
int find_process(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct upid upid = {};
	struct pid *pid;
	void *numbers;

	if (!task || task->pid != task->tgid)
		return 0;
	pid = BPF_CORE_READ(task, thread_pid);
	numbers = (void *)pid + bpf_core_field_offset(struct pid, numbers);
	for (__u32 level = 0; level < PID_LEVELS && level <= BPF_CORE_READ(pid, level); level++) {
		bpf_probe_read_kernel(&upid, sizeof(upid), numbers + level * sizeof(upid));
		if ((__u32)upid.nr == query.pid &&
		    BPF_CORE_READ(upid.ns, ns.inum) == query.namespace_inode) {
			answer.tgid = task->tgid;
			answer.pid_level = level;
		}
	}
	return 0;
}
