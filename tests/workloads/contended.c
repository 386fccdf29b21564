// SPDX-License-Identifier: Apache-2.0
/*
 * contended LOCK HOLD HOLD_US [PATH | CPU]: the main thread, "victim", takes a lock again and
 * again that a thread "owner" holds for HOLD_US each time. Tells the owner's thread id.
 *
 * LOCK: mutex, inherit (a mutex with priority inheritance), rwlock, condition, semaphore, raw (a
 * futex without an owner's id in it, as Rust's), chain (a mutex that "middle" holds, which waits
 * for the owner's), deadlock (of two mutexes each takes one, and then wants the other's), queue (a
 * mutex that "quick" has shortly when the victim comes, and the owner after that, who came first).
 * HOLD, what the owner does meanwhile: spin, sleep, sync (fsync PATH), pipe (reads what "feeder"
 * writes every HOLD_US), cpu (has HOLD_US of CPU time, on CPU alone).
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "workload.h"

#define GAP_NS 1000000
#define BREATH_NS 200000

/* Of a queue: the owner is back before the victim, and both while the other one has it. */
#define QUICK_NS 1500000
#define QUICK_GAP_NS 5000000
#define OWNER_GAP_NS 100000
#define VICTIM_GAP_NS 700000

static const char *lock, *hold;
static int64_t hold_ns;
static const char *where;
static int feed[2];
static pid_t owner_tid, middle_tid;
static pthread_barrier_t in_place;

static pthread_mutex_t mutex, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int turn;
static atomic_uint word;
static atomic_int deadlocked;

static bool is(const char *what, const char *name)
{
	return !strcmp(what, name);
}

/* 0: free, 1: locked, 2: and waited for; as in "Futexes Are Tricky" (Drepper), mutex2. */
static void raw_lock(void)
{
	unsigned int found = 0;

	if (atomic_compare_exchange_strong(&word, &found, 1))
		return;
	if (found != 2)
		found = atomic_exchange(&word, 2);
	while (found) {
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
		found = atomic_exchange(&word, 2);
	}
}

static void raw_unlock(void)
{
	if (atomic_exchange(&word, 0) == 2)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Has @first, and wants @second as soon as another thread has that. */
static void take_both(pthread_mutex_t *first, pthread_mutex_t *second)
{
	pthread_mutex_lock(first);
	for (deadlocked++; deadlocked < 2;)
		sleep_ns(GAP_NS);
	pthread_mutex_lock(second);
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void do_hold(void)
{
	int64_t end_ns = now_ns() + hold_ns;
	char byte = 0;

	if (is(hold, "spin")) {
		spin_ns(hold_ns);
	} else if (is(hold, "sleep")) {
		sleep_ns(hold_ns);
	} else if (is(hold, "pipe")) {
		require(read(feed[0], &byte, 1) == 1, "read");
	} else if (is(hold, "cpu")) {
		for (end_ns = cpu_ns() + hold_ns; cpu_ns() < end_ns;)
			spin_ns(hold_ns / 20);
	} else if (is(hold, "sync")) {
		int file = open(where, O_WRONLY | O_CREAT, 0600);

		require(file >= 0, where);
		while (now_ns() < end_ns) {
			require(pwrite(file, &end_ns, sizeof(end_ns), 0) > 0, "pwrite");
			require(!fsync(file), "fsync");
		}
		close(file);
	} else {
		require(false, hold);
	}
}

static void *feeder(void *unused)
{
	pthread_setname_np(pthread_self(), "feeder");
	pthread_barrier_wait(&in_place);
	for (;;) {
		sleep_ns(hold_ns);
		require(write(feed[1], "", 1) == 1, "write");
	}
	return unused;
}

/* Hold the lock once, or let the victim wait as long. */
static void own(void)
{
	if (is(lock, "rwlock")) {
		pthread_rwlock_wrlock(&rwlock);
		do_hold();
		pthread_rwlock_unlock(&rwlock);
	} else if (is(lock, "condition")) {
		do_hold();
		pthread_mutex_lock(&inner);
		turn = 1;
		pthread_cond_signal(&condition);
		pthread_mutex_unlock(&inner);
	} else if (is(lock, "semaphore")) {
		do_hold();
		sem_post(&semaphore);
	} else if (is(lock, "raw")) {
		raw_lock();
		do_hold();
		raw_unlock();
	} else if (is(lock, "deadlock")) {
		take_both(&inner, &mutex);
	} else if (is(lock, "chain")) {
		pthread_mutex_lock(&inner);
		do_hold();
		pthread_mutex_unlock(&inner);
	} else {
		pthread_mutex_lock(&mutex);
		do_hold();
		pthread_mutex_unlock(&mutex);
	}
}

static void want(void)
{
	if (is(lock, "rwlock")) {
		pthread_rwlock_rdlock(&rwlock);
		pthread_rwlock_unlock(&rwlock);
	} else if (is(lock, "condition")) {
		pthread_mutex_lock(&inner);
		while (!turn)
			pthread_cond_wait(&condition, &inner);
		turn = 0;
		pthread_mutex_unlock(&inner);
	} else if (is(lock, "semaphore")) {
		sem_wait(&semaphore);
	} else if (is(lock, "raw")) {
		raw_lock();
		raw_unlock();
	} else if (is(lock, "deadlock")) {
		take_both(&mutex, &inner);
	} else {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

static void *owner(void *unused)
{
	pthread_setname_np(pthread_self(), "owner");
	if (is(hold, "cpu"))
		run_on(atoi(where));
	owner_tid = gettid();
	pthread_barrier_wait(&in_place);
	for (;;) {
		own();
		sleep_ns(is(lock, "queue") ? OWNER_GAP_NS : GAP_NS);
	}
	return unused;
}

static void *quick(void *unused)
{
	pthread_setname_np(pthread_self(), "quick");
	pthread_barrier_wait(&in_place);
	for (;;) {
		pthread_mutex_lock(&mutex);
		spin_ns(QUICK_NS);
		pthread_mutex_unlock(&mutex);
		sleep_ns(QUICK_GAP_NS);
	}
	return unused;
}

static void *middle(void *unused)
{
	pthread_setname_np(pthread_self(), "middle");
	middle_tid = gettid();
	pthread_barrier_wait(&in_place);
	for (;;) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_lock(&inner);
		pthread_mutex_unlock(&inner);
		pthread_mutex_unlock(&mutex);
		sleep_ns(GAP_NS);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_mutexattr_t attributes;

	require(argc >= 4, "arguments");
	lock = argv[1];
	hold = argv[2];
	hold_ns = atoll(argv[3]) * 1000;
	where = argc > 4 ? argv[4] : "";
	pthread_setname_np(pthread_self(), "victim");
	pthread_mutexattr_init(&attributes);
	if (is(lock, "inherit"))
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&mutex, &attributes);
	sem_init(&semaphore, 0, 0);
	require(!pipe(feed), "pipe");
	pthread_barrier_init(&in_place, NULL,
			     2 + is(hold, "pipe") + is(lock, "chain") + is(lock, "queue"));
	if (is(hold, "pipe"))
		start_thread(feeder, NULL);
	start_thread(owner, NULL);
	if (is(lock, "chain"))
		start_thread(middle, NULL);
	if (is(lock, "queue"))
		start_thread(quick, NULL);
	pthread_barrier_wait(&in_place);
	answer("{\"owner\": %d, \"middle\": %d}", owner_tid, middle_tid);
	for (;;) {
		want();
		sleep_ns(is(lock, "queue") ? VICTIM_GAP_NS : BREATH_NS);
	}
}
