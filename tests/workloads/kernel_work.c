// SPDX-License-Identifier: Apache-2.0
/*
 * kernel_work WHAT: keeps the kernel busy, as fast as it goes: getppid, stat, maps (mmap, touch,
 * munmap), fresh (touches memory that it gives back), threads (starts and joins), signals (of a
 * timer), vfork (children that take 20 ms to become what they are to be), mincore (while a
 * thread, "protector", changes a large area all the time). Or only itself: function (calls
 * hot_function).
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "workload.h"

#define SIZE (4 << 20)
#define LARGE (64 << 20)
#define SLOW_START_NS 20000000
#define SIGNAL_EVERY_NS 5000

static volatile long sink;
static pthread_barrier_t in_place;

void hot_function(long value);

__attribute__((noinline)) void hot_function(long value)
{
	sink += value;
}

static void touch(volatile char *memory, size_t size)
{
	for (size_t at = 0; at < size; at += 4096)
		memory[at] = 1;
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED, "mmap");
	/* A huge page is one fault for 512 pages. */
	madvise(memory, size, MADV_NOHUGEPAGE);
	return memory;
}

static void keep_mapping(void)
{
	for (;;) {
		void *memory = map(SIZE);

		touch(memory, SIZE);
		munmap(memory, SIZE);
	}
}

static void *protect(void *area)
{
	pthread_setname_np(pthread_self(), "protector");
	pthread_barrier_wait(&in_place);
	for (;;) {
		mprotect(area, LARGE, PROT_READ);
		mprotect(area, LARGE, PROT_READ | PROT_WRITE);
	}
	return area;
}

static void want_address_space(void)
{
	void *area = map(LARGE), *page = map(4096);
	unsigned char found;

	touch(area, LARGE);
	pthread_barrier_init(&in_place, NULL, 2);
	start_thread(protect, area);
	pthread_barrier_wait(&in_place);
	answer("{}");
	for (;;)
		mincore(page, 4096, &found);
}

static void *nothing(void *unused)
{
	return unused;
}

static void handler(int number)
{
}

static void signal_storm(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec times = {{0, SIGNAL_EVERY_NS}, {0, SIGNAL_EVERY_NS}};
	timer_t timer;

	signal(SIGUSR1, handler);
	require(!timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
	require(!timer_settime(timer, 0, &times, NULL), "timer_settime");
	for (;;)
		sink++;
}

static void slow_child(void)
{
	pid_t child = vfork();

	require(child >= 0, "vfork");
	if (!child) {
		sleep_ns(SLOW_START_NS);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void fresh(void)
{
	char *memory = map(SIZE);

	for (;;) {
		touch(memory, SIZE);
		madvise(memory, SIZE, MADV_DONTNEED);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct stat found;

	pthread_setname_np(pthread_self(), "victim");
	if (!strcmp(what, "mincore"))
		want_address_space();
	answer("{}");
	if (!strcmp(what, "signals"))
		signal_storm();
	if (!strcmp(what, "fresh"))
		fresh();
	if (!strcmp(what, "maps"))
		keep_mapping();
	for (;;) {
		if (!strcmp(what, "getppid"))
			syscall(SYS_getppid);
		else if (!strcmp(what, "stat"))
			stat("/usr/share/doc", &found);
		else if (!strcmp(what, "threads"))
			pthread_join(start_thread(nothing, NULL), NULL);
		else if (!strcmp(what, "vfork"))
			slow_child();
		else
			hot_function(1);
	}
}
