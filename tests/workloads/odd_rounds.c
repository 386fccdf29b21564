// SPDX-License-Identifier: Apache-2.0
/*
 * odd_rounds WHAT WORK_NS: one round of its first thread in which it works that long, and does:
 *
 *   fork     make a child that works as long, and wait for it
 *   exec     become itself again, which goes on with the round and works as long again
 *   ring     nothing; the polls are io_uring_enter(2) that wait
 *   alarm    nothing; signals interrupt the poll before it, which is made again
 *   end      nothing; another thread has a round that it ends itself in
 *   handler  nothing; a signal's handler works as long in the poll before it
 *
 * Answers with the round's length, from inside and from outside.
 */
#include "workload.h"

#include <linux/io_uring.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/wait.h>

#define POLL_MS 40
#define ALARM_US 3000

static struct io_uring_params params;
static int ring = -1;

/* No request is there: it waits until its time is over. */
static void wait_for_ring(void)
{
	struct __kernel_timespec {
		long long seconds, ns;
	} length = {0, POLL_MS * 1000000};
	struct io_uring_getevents_arg argument = {.ts = (uintptr_t)&length};

	syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
		&argument, sizeof(argument));
}

static void wait_a_while(void)
{
	int64_t until_ns, left_ns;

	if (ring >= 0) {
		wait_for_ring();
		return;
	}
	until_ns = now_ns() + POLL_MS * 1000000LL;
	do
		left_ns = until_ns - now_ns();
	while (poll(NULL, 0, left_ns > 0 ? left_ns / 1000000 + 1 : 0) < 0);
}

static void ignore(int number)
{
}

/* So many steps take 20 ms of a CPU at least, however long others have it; and no system call. */
static void work(int number)
{
	for (volatile int step = 0; step < 60000000; step++)
		;
}

/* A signal for the first thread, as soon as that sleeps: in its poll. */
static void *interrupt(void *first)
{
	wait_for_state(getpid(), "S");
	pthread_kill((pthread_t)first, SIGALRM);
	return NULL;
}

static void wait_for_handler(void)
{
	int timeout_ms = -1;

	signal(SIGALRM, work);
	start_thread(interrupt, (void *)pthread_self());
	while (poll(NULL, 0, timeout_ms) < 0)
		timeout_ms = 1;
}

static void set_alarm(int us)
{
	struct itimerval timer = {{0, us}, {0, us}};

	signal(SIGALRM, ignore);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void *end_in_a_round(void *work_ns)
{
	poll(NULL, 0, 1);
	spin_ns((int64_t)work_ns);
	return NULL;
}

static void fork_and_wait(int64_t work_ns)
{
	pid_t child = fork_child();

	if (!child) {
		spin_ns(work_ns);
		poll(NULL, 0, 0);
		spin_ns(work_ns);
		poll(NULL, 0, 0);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *what = argv[1];
	int64_t work_ns = atoll(argv[2]), before_ns, after_ns, inside_ns;
	char before[32], after[32];

	if (argc > 4) {
		before_ns = atoll(argv[3]);
		after_ns = atoll(argv[4]);
	} else {
		if (!strcmp(what, "ring"))
			ring = syscall(SYS_io_uring_setup, 4, &params);
		answer("{\"there\": %s}", strcmp(what, "ring") || ring >= 0 ? "true" : "false");
		wait_for_line();
		if (!strcmp(what, "alarm"))
			set_alarm(ALARM_US);
		before_ns = now_ns();
		if (!strcmp(what, "handler"))
			wait_for_handler();
		else
			wait_a_while();
		after_ns = now_ns();
		if (!strcmp(what, "alarm"))
			set_alarm(0);
		if (!strcmp(what, "exec")) {
			spin_ns(work_ns);
			snprintf(before, sizeof(before), "%lld", (long long)before_ns);
			snprintf(after, sizeof(after), "%lld", (long long)after_ns);
			execl("/proc/self/exe", "odd_rounds", what, argv[2], before, after, NULL);
			return 1;
		}
	}
	if (!strcmp(what, "fork"))
		fork_and_wait(work_ns);
	if (!strcmp(what, "end"))
		pthread_join(start_thread(end_in_a_round, (void *)work_ns), NULL);
	spin_ns(work_ns);
	inside_ns = now_ns() - after_ns;
	wait_a_while();
	answer("{\"inside_ns\": %lld, \"outside_ns\": %lld}", (long long)inside_ns,
	       (long long)(now_ns() - before_ns));
	wait_for_line();
	return 0;
}
