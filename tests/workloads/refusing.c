// SPDX-License-Identifier: Apache-2.0
/*
 * refusing CALL ERRNO COMMAND...: runs it under a seccomp filter that answers a system call with
 * that error, as containers do: bpf, prog_load (bpf(2) that loads a program), or perf_event_open.
 */
#include "workload.h"

#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

int main(int argc, char **argv)
{
	bool is_load = !strcmp(argv[1], "prog_load");
	bool is_perf = !strcmp(argv[1], "perf_event_open");
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_perf ? SYS_perf_event_open : SYS_bpf, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_PROG_LOAD, 0, is_load),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(argv[2])),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	require(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	require(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "PR_SET_SECCOMP");
	execvp(argv[3], argv + 3);
	require(false, argv[3]);
}
