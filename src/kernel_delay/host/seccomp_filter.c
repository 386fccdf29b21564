// SPDX-License-Identifier: Apache-2.0
#include "seccomp_filter.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>

#define DENIED SCMP_ACT_ERRNO(EPERM)

/* Returns a new filter of no rules, NULL if there is no memory. */
static scmp_filter_ctx new_filter(uint32_t otherwise)
{
	scmp_filter_ctx filter = seccomp_init(otherwise);

	if (!filter)
		return NULL;
	/* Calls by the numbers of another architecture, as of 32-bit programs. */
	seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, DENIED);
	/* Before Linux 5.16 a filter made all user code slower: Documentation/admin-guide/
	 * kernel-parameters.txt, spec_store_bypass_disable. libseccomp can say no to that.
	 */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	return filter;
}

static int add_rules(scmp_filter_ctx filter, uint32_t action, const int32_t *calls, size_t n_calls)
{
	int error = 0;

	for (size_t i = 0; !error && i < n_calls; i++)
		error = seccomp_rule_add(filter, action, calls[i], 0);
	return error;
}

/* A rule cannot say "but for": each number between the commands is one, and all behind the last. */
static int deny_commands(scmp_filter_ctx filter, const int32_t *commands, size_t n_commands)
{
	int32_t command = 0;
	int error = 0;

	for (size_t i = 0; i < n_commands; i++) {
		for (; !error && command < commands[i]; command++)
			error = seccomp_rule_add(filter, DENIED, SCMP_SYS(bpf), 1,
						 SCMP_A0(SCMP_CMP_EQ, command));
		command = commands[i] + 1;
	}
	if (error || !n_commands)
		return error;
	/* Of 64 bits, of which the kernel reads 32: what has any of the upper ones is greater. */
	return seccomp_rule_add(filter, DENIED, SCMP_SYS(bpf), 1, SCMP_A0(SCMP_CMP_GE, command));
}

int deny_calls(const int32_t *calls, size_t n_calls, const int32_t *commands, size_t n_commands)
{
	scmp_filter_ctx filter = new_filter(SCMP_ACT_ALLOW);
	int error;

	if (!filter)
		return -ENOMEM;
	error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!error)
		error = add_rules(filter, DENIED, calls, n_calls);
	if (!error)
		error = deny_commands(filter, commands, n_commands);
	if (!error)
		error = seccomp_load(filter);
	seccomp_release(filter);
	return error;
}

int allow_calls(const int32_t *calls, size_t n_calls)
{
	scmp_filter_ctx filter = new_filter(DENIED);
	int error;

	if (!filter)
		return -ENOMEM;
	error = add_rules(filter, SCMP_ACT_ALLOW, calls, n_calls);
	if (!error)
		error = seccomp_load(filter);
	seccomp_release(filter);
	return error;
}

void end_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void refuse_tracers(void)
{
	prctl(PR_SET_DUMPABLE, 0);
}
