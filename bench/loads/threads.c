// SPDX-License-Identifier: Apache-2.0
/* threads COUNT: so many threads that each make a system call, and sleep, five times a second. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *act(void *unused)
{
	for (;;) {
		syscall(SYS_getppid);
		usleep(200000);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 * 1024);
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, act, NULL)) {
			perror("pthread_create");
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
