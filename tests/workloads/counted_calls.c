// SPDX-License-Identifier: Apache-2.0
/*
 * Known numbers of system calls: when it has read a byte, three threads of
 * their own names make 200 getppid and 100 getuid each and end, and then the
 * first makes 50 getgid and the process ends.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 3

static void make(long number, int count)
{
	while (count--)
		syscall(number);
}

static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	make(SYS_getppid, 200);
	make(SYS_getuid, 100);
	return NULL;
}

int main(void)
{
	char names[THREADS][16], c;
	pthread_t threads[THREADS];

	puts("ready");
	fflush(stdout);
	if (read(0, &c, 1) < 0)
		return 1;
	for (int i = 0; i < THREADS; i++) {
		snprintf(names[i], sizeof(names[i]), "worker %d", i);
		pthread_create(&threads[i], NULL, work, names[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	make(SYS_getgid, 50);
	return 0;
}
