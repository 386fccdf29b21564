/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workloads share. A workload says that it is ready, sleeps in
 * read(2) until a line of its standard input tells it to act, answers with a
 * line of JSON, and sleeps again; it exits at the end of its input. So a test
 * knows that all it does lies within a window, and when.
 */
#ifndef KERNEL_DELAY_WORKLOAD_H
#define KERNEL_DELAY_WORKLOAD_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

static inline void require(bool holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

/* The vDSO reads this clock: no syscall. */
static inline int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline void spin_ns(int64_t length_ns)
{
	int64_t end_ns = now_ns() + length_ns;

	while (now_ns() < end_ns)
		;
}

/* How long the thread had a CPU so far: a system call. */
static inline int64_t thread_cpu_ns(void)
{
	struct timespec on_cpu;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &on_cpu);
	return on_cpu.tv_sec * NS_PER_S + on_cpu.tv_nsec;
}

/* On a CPU, however many others want it; that is looked at rarely. */
static inline void run_ns(int64_t length_ns)
{
	int64_t on_cpu_ns, end_ns = 0;

	do {
		on_cpu_ns = thread_cpu_ns();
		if (!end_ns)
			end_ns = on_cpu_ns + length_ns;
		spin_ns(10 * 1000 * 1000);
	} while (on_cpu_ns < end_ns);
}

static inline void sleep_ns(int64_t length_ns)
{
	struct timespec length = {length_ns / NS_PER_S, length_ns % NS_PER_S};

	nanosleep(&length, NULL);
}

static inline void run_on(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	require(!sched_setaffinity(0, sizeof(cpus), &cpus), "sched_setaffinity");
}

static inline pthread_t start_thread(void *(*body)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	errno = pthread_create(&thread, &attributes, body, argument);
	require(!errno, "pthread_create");
	pthread_attr_destroy(&attributes);
	return thread;
}

/* A child that ends with this process, also where that ends before the child asks for it. */
static inline pid_t fork_child(void)
{
	pid_t parent = getpid(), child = fork();

	require(child >= 0, "fork");
	if (child)
		return child;
	require(!prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
	if (getppid() != parent)
		_exit(0);
	return 0;
}

/* Waits until a thread has one of these @states, the letter behind its name in /proc/TID/stat. */
static inline void wait_for_state(pid_t tid, const char *states)
{
	char path[32], stat[512], *name_end;
	ssize_t length;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	for (;;) {
		file = open(path, O_RDONLY | O_CLOEXEC);
		require(file >= 0, path);
		length = read(file, stat, sizeof(stat) - 1);
		require(length > 0, path);
		close(file);
		stat[length] = '\0';
		name_end = strrchr(stat, ')');
		if (strchr(states, name_end[2]))
			return;
		sleep_ns(100000);
	}
}

/* One write(2) a line. */
static inline void answer(const char *format, ...)
{
	char line[4096];
	va_list values;
	int length;

	va_start(values, format);
	length = vsnprintf(line, sizeof(line) - 1, format, values);
	va_end(values);
	line[length++] = '\n';
	require(write(STDOUT_FILENO, line, length) == length, "write");
}

/* Sleeps until the test sends a line, and leaves it in @line. False: no more will come. */
static inline bool next_line(char *line, size_t size)
{
	ssize_t length = read(STDIN_FILENO, line, size - 1);

	require(length >= 0, "read");
	line[length] = '\0';
	return length > 0;
}

static inline void wait_for_line(void)
{
	char line[64];

	if (!next_line(line, sizeof(line)))
		exit(0);
}

#ifdef HIDDEN_NAMES

/* As shown_name() of tests/verdicts/names.py: FNV-1a of the salt and the name. */
static inline const char *shown_name(const char *name, char shown[16])
{
	uint32_t hash = 2166136261;

	for (const char *at = getenv("KERNEL_DELAY_HIDES_NAMES"); at && *at; at++)
		hash = (hash ^ (uint8_t)*at) * 16777619;
	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619;
	snprintf(shown, 16, "task-%03x", hash & 0xfff);
	return shown;
}

#define pthread_setname_np(thread, name) pthread_setname_np(thread, shown_name(name, (char[16]){0}))

/* The arguments are not on the command line: each is a line of the environment. */
int staged_main(int argc, char **argv);

int main(int argc, char **argv)
{
	char *words[16] = {argv[0]};

	for (char *at = getenv("STAGE_ARGUMENTS"); argc < 15 && at; argc++)
		words[argc] = strsep(&at, "\n");
	return staged_main(argc, words);
}

#define main staged_main

#endif

#endif
