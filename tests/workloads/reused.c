// SPDX-License-Identifier: Apache-2.0
/*
 * reused COUNT: forks so many children one after the other, all with the same PID, which call
 * getppid once and exit. The answer has that, and how many got it.
 */
#include "workload.h"

#include <sys/wait.h>

static void ask_for(pid_t pid)
{
	FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "w");

	require(file && fprintf(file, "%d", pid - 1) > 0 && !fclose(file), "ns_last_pid");
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]), same = 0;
	pid_t first = 0;

	answer("{}");
	wait_for_line();
	for (int i = 0; i < count; i++) {
		pid_t pid;

		if (first)
			ask_for(first);
		pid = fork();
		require(pid >= 0, "fork");
		if (!pid) {
			syscall(SYS_getppid);
			_exit(0);
		}
		first = first ? first : pid;
		same += pid == first;
		require(waitpid(pid, NULL, 0) == pid, "waitpid");
	}
	answer("{\"pid\": %d, \"same\": %d}", first, same);
	wait_for_line();
	return 0;
}
