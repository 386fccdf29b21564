// SPDX-License-Identifier: Apache-2.0
/*
 * denied ACTION COUNT: a seccomp filter denies getppid(2), which is called that
 * often: by an error, a trap (SIGSYS), a supervisor's answer (notify), or with the
 * thread that calls it (kill). A call of getuid(2) is let through before each.
 *
 * Answers with how often each was denied, and how long the supervisor took.
 */
#include "workload.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>

#define ANSWER_NS 1000000

static int64_t answering_ns;
static int listener, denied;
static volatile sig_atomic_t trapped; /* apart, as the call that it interrupts is counting */

static void on_trap(int signal)
{
	trapped++;
}

/* Returns the descriptor of a filter that has one. */
static int filter(unsigned int action, unsigned int flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	int result;

	require(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
	require(result >= 0, "seccomp");
	return result;
}

static void *supervise(void *unused)
{
	for (;;) {
		struct seccomp_notif request = {};
		struct seccomp_notif_resp response = {};

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
			return NULL;
		sleep_ns(ANSWER_NS);
		answering_ns += ANSWER_NS;
		response.id = request.id;
		response.error = -EPERM;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
	}
}

static void *call(void *count)
{
	for (long left = (long)count; left > 0; left--) {
		syscall(SYS_getuid);
		denied += syscall(SYS_getppid) < 0 && errno == EPERM;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *action = argv[1];
	long count = atol(argv[2]);

	if (!strcmp(action, "trap")) {
		signal(SIGSYS, on_trap);
		filter(SECCOMP_RET_TRAP, 0);
	} else if (!strcmp(action, "notify")) {
		listener = filter(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
		start_thread(supervise, NULL);
	} else if (!strcmp(action, "kill")) {
		filter(SECCOMP_RET_KILL_THREAD, 0);
	} else {
		filter(SECCOMP_RET_ERRNO | EPERM, 0);
	}
	answer("{}");
	wait_for_line();
	if (!strcmp(action, "kill"))
		pthread_join(start_thread(call, (void *)count), NULL);
	else
		call((void *)count);
	answer("{\"denied\": %d, \"answering_ns\": %lld}", denied + trapped,
	       (long long)answering_ns);
	wait_for_line();
	return 0;
}
