// SPDX-License-Identifier: Apache-2.0
/*
 * Call chains that are known, each stopped in a read of standard input.
 *
 * call_chain CHAIN: runs the function of that name, from main or a thread.
 * Prints the thread's id when it is about to read; goes on when it has read.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call_chain.h"

/* A system call made here and not in libc, so that this function is the innermost. */
static inline __attribute__((always_inline)) long system_call(long number, long a, long b, long c)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}

static AS_WRITTEN void stop_here(void)
{
	char c;

	system_call(SYS_read, 0, (long)&c, 1);
	__asm__ volatile("nop"); /* what the read returns to is of this function's own lines */
	/* A call that begins and ends when somebody watches. */
	system_call(SYS_getppid, 0, 0, 0);
}

static void announce(void)
{
	printf("%ld\n", (long)syscall(SYS_gettid));
	fflush(stdout);
}

static AS_WRITTEN void recurse(int depth)
{
	volatile char local[16 + 8 * 3] = "";

	if (depth)
		recurse(depth - 1);
	else
		stop_here();
	(void)local;
}

static AS_WRITTEN void recursion(void)
{
	recurse(5);
}

static AS_WRITTEN void with_alloca(size_t size)
{
	volatile char *room = alloca(size);

	memset((char *)room, 1, size);
	stop_here();
	room[0] = 2;
}

static AS_WRITTEN void alloca_sizes(void)
{
	with_alloca(100 + (size_t)getpid() % 1000);
}

/* A large frame, with pages that nothing is written to. */
static AS_WRITTEN void untouched(void)
{
	char room[20000];

	__asm__ volatile("" : : "r"(room) : "memory");
	stop_here();
}

static AS_WRITTEN void big_frame(void)
{
	untouched();
}

static inline __attribute__((always_inline)) void inlined_inner(void)
{
	stop_here();
	__asm__ volatile("");
}

static inline __attribute__((always_inline)) void inlined_outer(void)
{
	inlined_inner();
}

static AS_WRITTEN void inlined(void)
{
	inlined_outer();
}

static AS_WRITTEN void library(void)
{
	library_enter(stop_here);
}

static AS_WRITTEN void on_signal(int number)
{
	(void)number;
	stop_here();
}

static AS_WRITTEN void interrupted(void)
{
	signal(SIGUSR1, on_signal);
	system_call(SYS_kill, getpid(), SIGUSR1, 0);
}

static AS_WRITTEN void signal_handler(void)
{
	interrupted();
}

/* Its first instruction faults: the address before it is another function's. */
void faults_at_once(void);
__asm__(".text\n"
	".type faults_at_once, @function\n"
	"faults_at_once:\n"
	".cfi_startproc\n"
#if defined(__x86_64__)
	"ud2\n"
#elif defined(__aarch64__)
	"udf #0\n"
#endif
	".cfi_endproc\n"
	".size faults_at_once, .-faults_at_once\n");

static AS_WRITTEN void fault(void)
{
	/* Once: it returns to the same instruction, which then ends the process. */
	sysv_signal(SIGILL, on_signal);
	faults_at_once();
}

static AS_WRITTEN void *thread_main(void *arg)
{
	announce();
	((step)arg)();
	return NULL;
}

static AS_WRITTEN void thread(void)
{
	pthread_t id;

	pthread_create(&id, NULL, thread_main, recursion);
	pthread_join(id, NULL);
}

/* The thread goes on when the process's first one has ended. */
static AS_WRITTEN void leaderless(void)
{
	pthread_t id;

	pthread_create(&id, NULL, thread_main, recursion);
	pthread_exit(NULL);
}

/* For single steps: through the PLT (the first time through the dynamic linker too) and back. */
static AS_WRITTEN void plt(void)
{
	stop_here();
	library_nothing();
	library_nothing();
	stop_here();
}

static AS_WRITTEN void vdso(void)
{
	struct timespec now;

	stop_here();
	clock_gettime(CLOCK_MONOTONIC, &now);
	stop_here();
}

#if defined(__x86_64__)
static AS_WRITTEN void run_generated(const char *code, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(memory, code, size);
	((void (*)(step))memory)(stop_here);
	munmap(memory, size);
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const char with_frame_pointer[] = "\x55\x48\x89\xe5\xff\xd7\x5d\xc3";
/* push %rbp; xor %ebp,%ebp; call *%rdi; pop %rbp; ret */
static const char without_frame_pointer[] = "\x55\x31\xed\xff\xd7\x5d\xc3";

static AS_WRITTEN void generated(void)
{
	run_generated(with_frame_pointer, sizeof(with_frame_pointer));
}

static AS_WRITTEN void generated_opaque(void)
{
	run_generated(without_frame_pointer, sizeof(without_frame_pointer));
}
#endif

static AS_WRITTEN void spin(long rounds)
{
	for (volatile long i = 0; i < rounds; i++)
		;
}

static AS_WRITTEN void spin_below(int depth, long rounds)
{
	if (depth)
		spin_below(depth - 1, rounds);
	else
		spin(rounds);
	__asm__ volatile("");
}

/* Some tenths of a second of work for a profiler that has been started meanwhile. */
static AS_WRITTEN void busy(void)
{
	stop_here();
	spin_below(4, 400 * 1000 * 1000);
}

static const struct {
	const char *name;
	step run;
} chains[] = {
	{"recursion", recursion},
	{"alloca", alloca_sizes},
	{"big", big_frame},
	{"inlined", inlined},
	{"library", library},
	{"signal", signal_handler},
	{"fault", fault},
	{"thread", thread},
	{"leaderless", leaderless},
	{"plt", plt},
	{"vdso", vdso},
#if defined(__x86_64__)
	{"generated", generated},
	{"generated-opaque", generated_opaque},
#endif
	{"busy", busy},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(chains) / sizeof(chains[0]); i++) {
		if (strcmp(argv[1], chains[i].name))
			continue;
		if (chains[i].run != thread && chains[i].run != leaderless)
			announce();
		chains[i].run();
		return 0;
	}
	fprintf(stderr, "usage: call_chain CHAIN\n");
	return 64;
}
