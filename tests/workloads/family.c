// SPDX-License-Identifier: Apache-2.0
/*
 * family COUNT: a process with a child that was there before. Told to, it forks COUNT more, one
 * after the other: number N of them calls getppid that many times, from 1 on, and exits. The
 * elder then forks one of its own that calls it 1000 times and execs true(1). The answer has
 * all their PIDs.
 */
#include "workload.h"

#include <sys/wait.h>

#define GRANDCHILD_CALLS 1000
#define MOST_CHILDREN 400

static void call(int count)
{
	for (; count > 0; count--)
		syscall(SYS_getppid);
}

static pid_t forked(void)
{
	pid_t pid = fork();

	require(pid >= 0, "fork");
	return pid;
}

static void wait_for(pid_t pid)
{
	int status;

	require(waitpid(pid, &status, 0) == pid && !status, "waitpid");
}

/* Forks one when it is told to, and answers with its PID when that has ended. */
static void be_the_elder(int reported, int answers)
{
	pid_t pid;
	char byte;

	while (read(reported, &byte, 1) == 1) {
		pid = forked();
		if (!pid) {
			call(GRANDCHILD_CALLS);
			execlp("true", "true", NULL);
			_exit(1);
		}
		wait_for(pid);
		require(write(answers, &pid, sizeof(pid)) == sizeof(pid), "write");
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int reported[2], answers[2], count = argc > 1 ? atoi(argv[1]) : 0;
	char list[4000] = "";
	size_t length = 0;
	pid_t elder, pid;

	require(count <= MOST_CHILDREN, "too many children");
	require(!pipe(reported) && !pipe(answers), "pipe");
	elder = fork_child();
	if (!elder)
		be_the_elder(reported[0], answers[1]);
	answer("{\"elder\": %d}", elder);
	wait_for_line();
	for (int number = 1; number <= count; number++) {
		pid = forked();
		if (!pid) {
			call(number);
			_exit(0);
		}
		wait_for(pid);
		length += snprintf(list + length, sizeof(list) - length, "%s%d",
				   number > 1 ? ", " : "", pid);
	}
	require(write(reported[1], "", 1) == 1, "write");
	require(read(answers[0], &pid, sizeof(pid)) == sizeof(pid), "read");
	answer("{\"children\": [%s], \"grandchild\": %d}", list, pid);
	wait_for_line();
	return 0;
}
