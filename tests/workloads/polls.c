// SPDX-License-Identifier: Apache-2.0
/*
 * polls NAME COUNT WORK_NS: calls poll, select, epoll_wait or another of their
 * kind that often, and works that long between two of them.
 *
 * Answers with what is between two polls, seen from inside (from after one to
 * before the next) and from outside (from before one to after the next).
 */
#include "workload.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#define POLL_NS 1000000

/* SYS_epoll_pwait2, the same on all architectures; glibc of Debian 12 has it, older ones not. */
#define EPOLL_PWAIT2 441

struct lengths {
	int64_t total_ns, min_ns, max_ns;
};

static void add(struct lengths *lengths, int64_t length_ns)
{
	if (!lengths->min_ns || length_ns < lengths->min_ns)
		lengths->min_ns = length_ns;
	if (length_ns > lengths->max_ns)
		lengths->max_ns = length_ns;
	lengths->total_ns += length_ns;
}

/* False if this architecture has no such call. */
static bool poll_as(const char *name, int epoll)
{
	struct timespec length = {0, POLL_NS};
	int64_t length64[] = {0, POLL_NS}; /* struct __kernel_timespec */
	struct epoll_event event;

	if (!strcmp(name, "ppoll"))
		syscall(SYS_ppoll, NULL, 0, &length, NULL, 0);
	else if (!strcmp(name, "pselect6"))
		syscall(SYS_pselect6, 0, NULL, NULL, NULL, &length, NULL);
	else if (!strcmp(name, "epoll_pwait"))
		syscall(SYS_epoll_pwait, epoll, &event, 1, 1, NULL, 0);
	else if (!strcmp(name, "epoll_pwait2"))
		syscall(EPOLL_PWAIT2, epoll, &event, 1, length64, NULL, 0);
#ifdef SYS_poll
	else if (!strcmp(name, "poll"))
		syscall(SYS_poll, NULL, 0, 1);
#endif
#if defined(SYS_select) && !defined(SYS__newselect)
	else if (!strcmp(name, "select"))
		syscall(SYS_select, 0, NULL, NULL, NULL, &(struct timeval){0, POLL_NS / 1000});
#endif
#ifdef SYS__newselect
	else if (!strcmp(name, "_newselect"))
		syscall(SYS__newselect, 0, NULL, NULL, NULL, &(struct timeval){0, POLL_NS / 1000});
#endif
#ifdef SYS_ppoll_time64
	else if (!strcmp(name, "ppoll_time64"))
		syscall(SYS_ppoll_time64, NULL, 0, length64, NULL, 0);
	else if (!strcmp(name, "pselect6_time64"))
		syscall(SYS_pselect6_time64, 0, NULL, NULL, NULL, length64, NULL);
#endif
#ifdef SYS_epoll_wait
	else if (!strcmp(name, "epoll_wait"))
		syscall(SYS_epoll_wait, epoll, &event, 1, 1);
#endif
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct lengths inside = {}, outside = {};
	int64_t before_ns, after_ns, last_before_ns = 0, last_after_ns = 0;
	int count = atoi(argv[2]), epoll = epoll_create1(0);

	answer("{\"there\": %s}", poll_as(argv[1], epoll) ? "true" : "false");
	wait_for_line();
	for (int i = 0; i < count; i++) {
		before_ns = now_ns();
		poll_as(argv[1], epoll);
		after_ns = now_ns();
		if (i) {
			add(&inside, before_ns - last_after_ns);
			add(&outside, after_ns - last_before_ns);
		}
		last_before_ns = before_ns;
		last_after_ns = after_ns;
		spin_ns(atoll(argv[3]));
	}
	answer("{\"inside\": {\"total_ns\": %lld, \"min_ns\": %lld, \"max_ns\": %lld},"
	       " \"outside\": {\"total_ns\": %lld, \"min_ns\": %lld, \"max_ns\": %lld}}",
	       (long long)inside.total_ns, (long long)inside.min_ns, (long long)inside.max_ns,
	       (long long)outside.total_ns, (long long)outside.min_ns, (long long)outside.max_ns);
	wait_for_line();
	return 0;
}
