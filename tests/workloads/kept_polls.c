// SPDX-License-Identifier: Apache-2.0
/*
 * kept_polls WHAT LENGTH_NS: a child of it keeps it for so long
 *
 *   wait       stopped, in a poll
 *   stopped    stopped, after a poll that a signal interrupted; it makes that again
 *   preempted  without its CPU there
 *
 * Answers with how long it was from that poll to the next, from inside and from outside, and how
 * long the child kept it: others may have that CPU for a while, and leave it to it.
 */
#include "workload.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#define ALARM_US 3000

static volatile struct shared {
	int parent_is_there; /* in its poll, or after it */
	int child_is_done;
	int64_t kept_ns;
} * shared;

static void ignore(int number)
{
}

static void stop(pid_t parent, int64_t length_ns)
{
	kill(parent, SIGSTOP);
	/* It stops once it has a CPU; a SIGCONT before that takes the signal back. */
	wait_for_state(parent, "T");
	sleep_ns(length_ns);
	kill(parent, SIGCONT);
}

/* How long the process's first thread has run: proc_pid_schedstat(5). */
static int64_t ran_ns(pid_t process)
{
	char path[64];
	long long ns;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", process);
	file = fopen(path, "r");
	require(file && fscanf(file, "%lld", &ns) == 1, path);
	fclose(file);
	return ns;
}

static void keep(pid_t parent, const char *what, int64_t length_ns)
{
	struct sched_param priority = {.sched_priority = 1};
	int64_t start_ns, before_ns;

	if (!strcmp(what, "preempted"))
		require(!sched_setscheduler(0, SCHED_FIFO, &priority), "sched_setscheduler");
	while (!shared->parent_is_there)
		sleep_ns(1000000);
	if (!strcmp(what, "wait"))
		wait_for_state(parent, "S"); /* in its poll */
	start_ns = now_ns();
	before_ns = ran_ns(parent);
	if (!strcmp(what, "preempted"))
		spin_ns(length_ns);
	else
		stop(parent, length_ns);
	shared->kept_ns = now_ns() - start_ns - (ran_ns(parent) - before_ns);
	shared->child_is_done = 1;
	_exit(0);
}

/* A CPU that it may have, and its child too. */
static void run_on_one(void)
{
	cpu_set_t cpus;
	int cpu = 0;

	require(!sched_getaffinity(0, sizeof(cpus), &cpus), "sched_getaffinity");
	while (!CPU_ISSET(cpu, &cpus))
		cpu++;
	run_on(cpu);
}

/* The signal may come before the poll on a busy machine: it is let through there. */
static void poll_until_interrupted(void)
{
	struct itimerval once = {{0, 0}, {0, ALARM_US}};
	sigset_t alarm, none;

	sigemptyset(&none);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	require(!sigprocmask(SIG_BLOCK, &alarm, NULL), "sigprocmask");
	signal(SIGALRM, ignore);
	setitimer(ITIMER_REAL, &once, NULL);
	require(ppoll(NULL, 0, NULL, &none) < 0, "ppoll");
}

int main(int argc, char **argv)
{
	const char *what = argv[1];
	int64_t length_ns = atoll(argv[2]), before_ns, after_ns, inside_ns;
	bool waits = !strcmp(what, "wait");
	pid_t parent = getpid();

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	require(shared != MAP_FAILED, "mmap");
	run_on_one();
	answer("{}");
	wait_for_line();
	if (!fork_child())
		keep(parent, what, length_ns);
	before_ns = now_ns();
	if (waits)
		poll(NULL, 0, 1);
	else
		poll_until_interrupted();
	after_ns = now_ns();
	shared->parent_is_there = 1;
	/* The child may come too late for one poll: it waits for the next. */
	while (!shared->child_is_done)
		if (waits)
			poll(NULL, 0, 4 * length_ns / 1000000);
	inside_ns = now_ns() - after_ns;
	poll(NULL, 0, 1);
	answer("{\"inside_ns\": %lld, \"outside_ns\": %lld, \"kept_ns\": %lld}",
	       (long long)inside_ns, (long long)(now_ns() - before_ns), (long long)shared->kept_ns);
	wait_for_line();
	return 0;
}
