/*
 * A library to be preloaded into ovs-vswitchd: what it is asked for it does within a round of
 * OVS's own main loop, where refresh_rusage() of lib/timeval.c:time_poll() calls getrusage(2),
 * just after OVS has noted when poll returned. For its log's line of a round OVS calls it too, when
 * the round's length is taken already: there nothing is done.
 *
 * LONG_ROUNDS names a file with a struct request, which the test maps and writes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct request {
	_Atomic unsigned int pending; /* set last, and taken by the thread */
	unsigned int ms;
	char thread[16]; /* of that name */
	char what[16];
	_Atomic unsigned int done;
};

static struct request *request;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int locked;

/* Of each thread: whether it has done nothing here since its last poll. */
static __thread int has_polled;

static void sleep_ms(unsigned int ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000L};

	while (nanosleep(&left, &left))
		;
}

static long long cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

__attribute__((noinline)) void kd_compute(unsigned int ms)
{
	long long until = cpu_ms() + ms;

	while (cpu_ms() < until)
		;
}

/* System calls whose time is the kernel's: it fills what is read with zeros. */
static void work_in_kernel(unsigned int ms)
{
	static char bytes[1 << 20];
	int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	long long until = cpu_ms() + ms;

	while (cpu_ms() < until)
		if (read(zeros, bytes, sizeof(bytes)) < 0)
			abort();
	close(zeros);
}

/* Until it is told by another request, which it takes; for so long at most. */
__attribute__((noinline)) void kd_spin(unsigned int ms)
{
	long long until = cpu_ms() + ms;
	unsigned int pending = 1;

	while (!atomic_compare_exchange_strong(&request->pending, &pending, 0) && cpu_ms() < until)
		pending = 1;
}

static void *hold_lock(void *ms)
{
	prctl(PR_SET_NAME, "lock_holder");
	pthread_mutex_lock(&lock);
	atomic_store(&locked, 1);
	sleep_ms((unsigned long)ms);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void wait_for_lock(unsigned int ms)
{
	pthread_t holder;

	atomic_store(&locked, 0);
	if (pthread_create(&holder, NULL, hold_lock, (void *)(unsigned long)ms))
		abort();
	while (!atomic_load(&locked))
		;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	pthread_join(holder, NULL);
}

static void *drain(void *ends)
{
	unsigned int ms = ((unsigned int *)ends)[2];
	char page[4096];

	prctl(PR_SET_NAME, "slow_reader");
	sleep_ms(ms);
	if (read(((int *)ends)[0], page, sizeof(page)) < 0)
		abort();
	return NULL;
}

/* A write that blocks until somebody reads what was written before. */
static void write_and_block(unsigned int ms)
{
	int ends[3] = {-1, -1, (int)ms};
	static char page[4096];
	pthread_t reader;

	if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, sizeof(page)) < 0)
		abort();
	if (write(ends[1], page, sizeof(page)) < 0 || pthread_create(&reader, NULL, drain, ends) ||
	    write(ends[1], page, sizeof(page)) < 0)
		abort();
	pthread_join(reader, NULL);
	close(ends[0]);
	close(ends[1]);
}

static void do_as_asked(const char *what, unsigned int ms)
{
	if (!strcmp(what, "compute"))
		kd_compute(ms);
	else if (!strcmp(what, "spin"))
		kd_spin(ms);
	else if (!strcmp(what, "kernel"))
		work_in_kernel(ms);
	else if (!strcmp(what, "sleep"))
		sleep_ms(ms);
	else if (!strcmp(what, "lock"))
		wait_for_lock(ms);
	else if (!strcmp(what, "write"))
		write_and_block(ms);
	else if (!strcmp(what, "stop"))
		kill(getpid(), SIGSTOP);
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	static int (*real)(struct pollfd *, nfds_t, int);

	if (!real)
		real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	has_polled = 1;
	return real(fds, count, timeout_ms);
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
	static int (*real)(__rusage_who_t, struct rusage *);
	unsigned int pending = 1;
	char name[16] = "";
	int result;

	if (!real)
		real = (int (*)(__rusage_who_t, struct rusage *))dlsym(RTLD_NEXT, "getrusage");
	result = real(who, usage);
	if (!has_polled)
		return result;
	has_polled = 0;
	if (!request || !atomic_load(&request->pending))
		return result;
	prctl(PR_GET_NAME, name);
	if (strcmp(name, request->thread) ||
	    !atomic_compare_exchange_strong(&request->pending, &pending, 0))
		return result;
	do_as_asked(request->what, request->ms);
	atomic_fetch_add(&request->done, 1);
	return result;
}

__attribute__((constructor)) static void map_request(void)
{
	const char *path = getenv("LONG_ROUNDS");
	int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	if (file < 0)
		return;
	memory = mmap(NULL, sizeof(*request), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory != MAP_FAILED)
		request = memory;
}
