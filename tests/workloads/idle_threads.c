// SPDX-License-Identifier: Apache-2.0
/*
 * idle_threads WHAT THREADS: so many threads beside the main one, which sleeps. WHAT: pool (they
 * wait for a condition), sleep, pmd (they poll without ever sleeping, and are called as those
 * of ovs-vswitchd, as is the process), pmd-calls (they do so by calls, and yield).
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "workload.h"

#define LONG_NS (3600 * NS_PER_S)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t in_place;
static volatile long packets;

static void *wait_for_work(void *unused)
{
	pthread_barrier_wait(&in_place);
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&work, &mutex);
	return unused;
}

static void *rest(void *unused)
{
	pthread_barrier_wait(&in_place);
	for (;;)
		sleep_ns(LONG_NS);
	return unused;
}

static void *poll_by_calls(void *unused)
{
	int port = socket(AF_INET, SOCK_DGRAM, 0);
	char packet[64];

	require(port >= 0, "socket");
	pthread_setname_np(pthread_self(), "pmd-c01/id:1");
	pthread_barrier_wait(&in_place);
	for (;;) {
		if (recv(port, packet, sizeof(packet), MSG_DONTWAIT) > 0)
			packets++;
		sched_yield();
	}
	return unused;
}

static void *poll_ports(void *unused)
{
	pthread_setname_np(pthread_self(), "pmd-c01/id:1");
	pthread_barrier_wait(&in_place);
	for (;;)
		packets++;
	return unused;
}

int main(int argc, char **argv)
{
	void *(*body)(void *) = rest;

	require(argc == 3, "arguments");
	if (!strcmp(argv[1], "pool"))
		body = wait_for_work;
	if (!strncmp(argv[1], "pmd", 3)) {
		body = strcmp(argv[1], "pmd") ? poll_by_calls : poll_ports;
		pthread_setname_np(pthread_self(), "ovs-vswitchd");
	}
	pthread_barrier_init(&in_place, NULL, atoi(argv[2]) + 1);
	for (int thread = 0; thread < atoi(argv[2]); thread++)
		start_thread(body, NULL);
	pthread_barrier_wait(&in_place);
	answer("{}");
	for (;;)
		sleep_ns(LONG_NS);
}
