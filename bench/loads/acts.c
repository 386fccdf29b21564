// SPDX-License-Identifier: Apache-2.0
/*
 * acts FILE FIRST_CPU SECOND_CPU: two threads act as the lines on standard input
 * say, until the next line: "calls 1" and "calls 2" make getppid(2) in so many
 * threads, each on its CPU; "paced 1000" makes 1,000,000 a second in one thread;
 * in "pings 2" both wake each other through pipes, on the first CPU; "packets 1"
 * sends packets that nobody receives through lo, each of which runs a net_rx soft
 * IRQ before the next; "rest 0" sleeps. Each line is answered once it is done. How
 * long each batch of acts took goes to FILE, for the bench to read while it goes on.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2
#define KEPT 65536
#define CALLS 1024
#define PINGS 128
#define PACKETS 1024
#define AT_A_TIME 128

/* bench/acting.py reads these: one of each thread. */
struct batches {
	_Atomic uint64_t count;
	uint64_t took_ns[KEPT];
};

enum work { REST, CALL, PACED, PING, PACKET };

static struct batches *batches;
static int cpus[THREADS], there[2], back[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic int work, wanted, thousands;
static int busy;

static void require(int holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	require(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

static void ping(char byte)
{
	require(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "ping");
}

static void echo(void)
{
	char more = 1;

	while (more)
		require(read(there[0], &more, 1) == 1 && write(back[1], &more, 1) == 1, "echo");
}

/* At even distances, and what is late is made up for; the clock is the vDSO's, no system call. */
static void call_paced(uint64_t *due_ns)
{
	for (int i = 0; i < CALLS; i++) {
		while (now_ns() < *due_ns)
			;
		syscall(SYS_getppid);
		*due_ns += 1000000 / thousands;
	}
}

static int packet_socket(void)
{
	struct sockaddr_ll device = {
		.sll_family = AF_PACKET,
		.sll_ifindex = if_nametoindex("lo"),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	require(fd >= 0 && !bind(fd, (void *)&device, sizeof(device)), "packet socket");
	return fd;
}

/* The protocol is one for experiments (IEEE 802), which nothing takes. */
static void send_packets(int fd)
{
	struct ether_header packet = {.ether_type = htons(0x88b5)};
	struct iovec part = {&packet, sizeof(packet)};
	struct mmsghdr messages[AT_A_TIME];

	for (int i = 0; i < AT_A_TIME; i++)
		messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
	for (int i = 0; i < PACKETS; i += AT_A_TIME)
		require(sendmmsg(fd, messages, AT_A_TIME, 0) == AT_A_TIME, "sendmmsg");
}

static void act_until_reported(int index, int what)
{
	struct batches *mine = &batches[index];
	int fd = what == PACKET ? packet_socket() : -1;
	uint64_t due_ns = now_ns();

	while (atomic_load_explicit(&work, memory_order_relaxed) == what) {
		uint64_t start_ns = now_ns();

		if (what == CALL)
			for (int i = 0; i < CALLS; i++)
				syscall(SYS_getppid);
		else if (what == PACED)
			call_paced(&due_ns);
		else if (what == PACKET)
			send_packets(fd);
		else
			for (int i = 0; i < PINGS; i++)
				ping(1);
		mine->took_ns[mine->count % KEPT] = now_ns() - start_ns;
		mine->count++;
	}
	if (what == PING)
		ping(0);
	if (what == PACKET)
		close(fd);
}

static void *worker(void *argument)
{
	int index = (intptr_t)argument;

	for (;;) {
		int what;

		pthread_mutex_lock(&lock);
		while (work == REST || index >= wanted)
			pthread_cond_wait(&changed, &lock);
		what = work;
		busy++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);

		run_on(cpus[what == PING ? 0 : index]);
		if (what == PING && index)
			echo();
		else
			act_until_reported(index, what);

		pthread_mutex_lock(&lock);
		busy--;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static int kind(const char *word)
{
	if (!strcmp(word, "calls"))
		return CALL;
	if (!strcmp(word, "paced"))
		return PACED;
	if (!strcmp(word, "packets"))
		return PACKET;
	return strcmp(word, "pings") ? REST : PING;
}

static void set_work(int what, int number)
{
	int threads = what == PACED ? 1 : number;

	pthread_mutex_lock(&lock);
	work = REST;
	while (busy)
		pthread_cond_wait(&changed, &lock);
	work = what;
	thousands = number;
	wanted = threads;
	pthread_cond_broadcast(&changed);
	while (busy < threads)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0600), number;
	char word[8];

	require(argc == 4 && file >= 0 && !ftruncate(file, THREADS * sizeof(*batches)), "file");
	batches =
		mmap(NULL, THREADS * sizeof(*batches), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	require(batches != MAP_FAILED && !pipe(there) && !pipe(back), "memory and pipes");
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		cpus[i] = atoi(argv[2 + i]);
		require(!pthread_create(&thread, NULL, worker, (void *)(intptr_t)i), "thread");
	}
	puts("ready");
	fflush(stdout);
	while (scanf("%7s %d", word, &number) == 2) {
		set_work(kind(word), number);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
