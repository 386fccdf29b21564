/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that hit triggers at the same moment, and remember when.
 *
 * hits ROLES HITS: one thread for each letter of ROLES, which HITS times calls
 * start_hit() (s), stop_hit() (p) or one after the other (b). Prints "ready",
 * waits for a line of input, and at the end prints a line a hit: the thread's
 * id, s or p, and its clock before and after the call; and "end". It exits at
 * the end of its input.
 *
 * For each hit all threads meet first; then each is late by a small time of its
 * own, which changes from hit to hit.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define MOST_THREADS 16
#define LATEST_NS 2000

/*
 * A thread that met no other for so long gives the CPU to one that is not on any: it
 * sleeps, as sched_yield(2) hands the CPU from one that waits to another for long.
 */
#define SPINS 2000

struct hit {
	char role;
	int64_t before_ns;
	int64_t after_ns;
};

struct thread {
	pthread_t handle;
	int number;
	char role;
	long tid;
	struct hit *hits;
};

static struct thread threads[MOST_THREADS];
static int thread_count;
static long hit_count;
static atomic_long arrived;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

__attribute__((noinline)) void start_hit(void)
{
	__asm__ volatile("");
}

__attribute__((noinline)) void stop_hit(void)
{
	__asm__ volatile("");
}

static void meet(long number)
{
	const struct timespec pause = {.tv_nsec = 1000};
	long all = (number + 1) * thread_count;

	atomic_fetch_add(&arrived, 1);
	for (long spins = 0; atomic_load(&arrived) < all; spins++)
		if (spins > SPINS)
			nanosleep(&pause, NULL);
}

static void *hit_all(void *argument)
{
	struct thread *thread = argument;
	unsigned int random = thread->number + 1;

	thread->tid = syscall(SYS_gettid);
	for (long number = 0; number < hit_count; number++) {
		struct hit *hit = &thread->hits[number];
		int64_t due_ns;

		meet(number);
		hit->role = thread->role == 'b' ? "sp"[number % 2] : thread->role;
		due_ns = now_ns() + rand_r(&random) % LATEST_NS;
		do
			hit->before_ns = now_ns();
		while (hit->before_ns < due_ns);
		if (hit->role == 's')
			start_hit();
		else
			stop_hit();
		hit->after_ns = now_ns();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3 || strlen(argv[1]) > MOST_THREADS)
		return 1;
	thread_count = (int)strlen(argv[1]);
	hit_count = atol(argv[2]);
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (int i = 0; i < thread_count; i++) {
		struct thread *thread = &threads[i];

		thread->number = i;
		thread->role = argv[1][i];
		thread->hits = calloc(hit_count, sizeof(*thread->hits));
		if (!thread->hits || pthread_create(&thread->handle, NULL, hit_all, thread))
			return 1;
	}
	for (int i = 0; i < thread_count; i++) {
		struct thread *thread = &threads[i];

		pthread_join(thread->handle, NULL);
		for (long number = 0; number < hit_count; number++)
			printf("%ld %c %ld %ld\n", thread->tid, thread->hits[number].role,
			       thread->hits[number].before_ns, thread->hits[number].after_ns);
	}
	puts("end");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
