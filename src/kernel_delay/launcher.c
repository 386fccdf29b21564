/* SPDX-License-Identifier: Apache-2.0 */
/* The command: Python, and in it kernel_delay.__main__. Until that has seen to SIGINT, SIGTERM and
 * SIGHUP they are blocked, as the interpreter takes some 20 ms to start and one that comes
 * meanwhile would end it with a traceback, or go unnoticed. `--version` alone takes no Python.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PYTHON "python3"

/* -P: no module of the current folder is taken for one of Python's or of ours. */
static const char *const before[] = {PYTHON, "-P", "-m", "kernel_delay"};
#define N_BEFORE (sizeof(before) / sizeof(*before))

/* The interpreter of the environment that this is installed in: beside it, if there is one. */
static const char *neighbour(char path[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - sizeof(PYTHON));
	char *slash;

	if (len < 0)
		return PYTHON;
	path[len] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return PYTHON;
	strcpy(slash + 1, PYTHON);
	return access(path, X_OK) && errno == ENOENT ? PYTHON : path;
}

/* Prints the version. Returns false where that fails: the command says why. */
static bool print_version(void)
{
	static const char line[] = "kernel-delay " VERSION "\n";

	return write(STDOUT_FILENO, line, sizeof(line) - 1) == sizeof(line) - 1;
}

int main(int argc, char **argv)
{
	const char **arguments = calloc(N_BEFORE + argc + 1, sizeof(*arguments));
	char path[PATH_MAX];
	sigset_t ends;

	if (argc == 2 && !strcmp(argv[1], "--version") && print_version())
		return EX_OK;
	if (!arguments)
		return EX_OSERR;
	memcpy(arguments, before, sizeof(before));
	if (argc > 1)
		memcpy(arguments + N_BEFORE, argv + 1, (argc - 1) * sizeof(*argv));
	arguments[0] = neighbour(path);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	execvp(arguments[0], (char *const *)arguments);
	fprintf(stderr, "kernel-delay: can't start %s: %s\n", arguments[0], strerror(errno));
	return EX_UNAVAILABLE;
}
