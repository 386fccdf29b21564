// SPDX-License-Identifier: Apache-2.0
/*
 * reap CPU FILES PAUSE_NS: is preempted again and again while its state already says
 * that it sleeps.
 *
 * wait4(2) sets TASK_INTERRUPTIBLE, and then releases a child that has exited
 * (kernel/exit.c:do_wait()). That drops what /proc/PID has cached of the child
 * (fs/proc/base.c:proc_flush_pid()), file by file; between two files another
 * may have the CPU (fs/dcache.c:shrink_dentry_list(), cond_resched()). The
 * child had FILES open that were looked at in /proc, and a thread of a higher
 * class wants the CPU then, again after each PAUSE_NS: so it happens. The thread never sleeps
 * meanwhile, so it is either running or ready.
 *
 * Each line has it release another child; answers with how long wait4() took.
 */
#include "workload.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static volatile bool competing;
static int child_ready[2], child_exit[2], begin[2];

static void *compete(void *argument)
{
	const int64_t *pause_ns = argument;
	int64_t had_ns = thread_cpu_ns(), took_ns, least_ns = 0;

	char byte;

	for (;;) {
		require(read(begin[0], &byte, 1) == 1, "read");
		while (competing) {
			/*
			 * On a slow CPU to wake up alone may take longer than the pause. The least
			 * that it took: more is what the CPU itself was kept from running.
			 */
			sleep_ns(least_ns * 9 > *pause_ns ? least_ns * 9 : *pause_ns);
			spin_ns(100000);
			took_ns = thread_cpu_ns() - had_ns;
			had_ns += took_ns;
			if (!least_ns || took_ns < least_ns)
				least_ns = took_ns;
		}
	}
	return NULL;
}

static pid_t start_child(int files)
{
	pid_t child = fork_child();
	char byte = 0;

	if (child)
		return child;
	while (files-- > 0 && dup(STDERR_FILENO) >= 0)
		;
	require(write(child_ready[1], &byte, 1) == 1, "write");
	require(read(child_exit[0], &byte, 1) == 1, "read");
	_exit(0);
}

static void look_at_files(pid_t child)
{
	struct dirent *entry;
	struct stat status;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", child);
	folder = opendir(path);
	require(folder, path);
	while ((entry = readdir(folder)))
		fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW);
	closedir(folder);
}

static void allow_many_files(void)
{
	struct rlimit limit;

	require(!getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
	limit.rlim_cur = limit.rlim_max;
	require(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

/* Returns how long wait4() took. */
static int64_t release_child(int files)
{
	siginfo_t exited;
	int64_t start_ns;
	char byte = 0;
	pid_t child;

	child = start_child(files);
	require(read(child_ready[0], &byte, 1) == 1, "read");
	look_at_files(child);
	require(write(child_exit[1], &byte, 1) == 1, "write");
	require(!waitid(P_PID, child, &exited, WEXITED | WNOWAIT), "waitid");
	competing = true;
	require(write(begin[1], &byte, 1) == 1, "write");
	start_ns = now_ns();
	require(wait4(child, NULL, 0, NULL) == child, "wait4");
	competing = false;
	return now_ns() - start_ns;
}

int main(int argc, char **argv)
{
	struct sched_param first = {.sched_priority = 1};
	int64_t pause_ns = atoll(argv[3]);
	pthread_t competitor;

	run_on(atoi(argv[1]));
	allow_many_files();
	require(!pipe(child_ready) && !pipe(child_exit) && !pipe(begin), "pipe");
	competitor = start_thread(compete, &pause_ns);
	if (pthread_setschedparam(competitor, SCHED_FIFO, &first)) {
		answer("{\"competitor\": false}");
		return 0;
	}
	answer("{\"competitor\": true}");
	for (;;) {
		wait_for_line();
		answer("{\"took_ns\": %lld}", (long long)release_child(atoi(argv[2])));
	}
}
