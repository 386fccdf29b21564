/*
 * A library to be preloaded into ovs-vswitchd: a PMD thread is asked for a long iteration of its
 * own code. netdev_dummy_rxq_recv() of lib/netdev-dummy.c, which it calls in each iteration, takes
 * a mutex.
 *
 * LONG_ITERATION names a file with the milliseconds, which the test maps and writes; the thread
 * takes them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static _Atomic unsigned int *asked_ms;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noinline)) void kd_iterate(unsigned int ms)
{
	long long until = now_ns() + ms * 1000000LL;

	/* Where the clock is no vDSO's, to read it is a system call. */
	while (now_ns() < until)
		for (volatile int count = 0; count < 1 << 20; count++)
			;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*_Atomic real)(pthread_mutex_t *);
	char name[16] = "";
	unsigned int ms;

	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	if (asked_ms && atomic_load(asked_ms)) {
		prctl(PR_GET_NAME, name);
		ms = strncmp(name, "pmd-c", 5) ? 0 : atomic_exchange(asked_ms, 0);
		if (ms)
			kd_iterate(ms);
	}
	return real(mutex);
}

__attribute__((constructor)) static void map_request(void)
{
	const char *path = getenv("LONG_ITERATION");
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	if (file < 0)
		return;
	memory = mmap(NULL, sizeof(*asked_ms), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory != MAP_FAILED)
		asked_ms = memory;
}
