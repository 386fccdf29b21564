/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds of known work between two USDT probes, in a function of its own.
 *
 * rounds PERIOD_NS: prints "ready", and for each number that it reads makes so
 * many rounds, which begin PERIOD_NS apart (0: at once). Round R makes R % 8
 * getppid(2) and, if R % 5 is 0, one nanosleep(2) of SLEEP_NS. Then it prints a
 * line a round: its clock before the function, after the first probe, before
 * the last probe and after the function, and the calls it made; and "end". It
 * exits at the end of its input.
 *
 * CLOCK_MONOTONIC is read between the probes too: where that is a syscall it is
 * another one than those that are counted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define SLEEP_NS 20000

struct round {
	int64_t outer_start_ns;
	int64_t inner_start_ns;
	int64_t inner_stop_ns;
	int64_t outer_stop_ns;
	int getppids;
	int nanosleeps;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

__attribute__((noinline)) void round_work(struct round *round, long number)
{
	struct timespec length = {0, SLEEP_NS};

	DTRACE_PROBE1(kd_rounds, start, number);
	round->inner_start_ns = now_ns();
	for (; round->getppids < number % 8; round->getppids++)
		syscall(SYS_getppid);
	if (number % 5 == 0) {
		syscall(SYS_nanosleep, &length, NULL);
		round->nanosleeps++;
	}
	round->inner_stop_ns = now_ns();
	DTRACE_PROBE1(kd_rounds, stop, number);
}

static void sleep_until(int64_t moment_ns)
{
	struct timespec moment = {moment_ns / NS_PER_S, moment_ns % NS_PER_S};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
}

static void make(struct round *rounds, long count, int64_t period_ns)
{
	int64_t begin_ns = now_ns();

	for (long number = 0; number < count; number++) {
		if (period_ns)
			sleep_until(begin_ns + number * period_ns);
		rounds[number].outer_start_ns = now_ns();
		round_work(&rounds[number], number);
		rounds[number].outer_stop_ns = now_ns();
	}
}

int main(int argc, char **argv)
{
	int64_t period_ns = argc > 1 ? atol(argv[1]) : 0;
	long count;

	puts("ready");
	fflush(stdout);
	while (scanf("%ld", &count) == 1) {
		struct round *rounds = calloc(count, sizeof(*rounds));

		if (!rounds)
			return 1;
		make(rounds, count, period_ns);
		for (const struct round *round = rounds; round < rounds + count; round++)
			printf("%ld %ld %ld %ld %d %d\n", round->outer_start_ns,
			       round->inner_start_ns, round->inner_stop_ns, round->outer_stop_ns,
			       round->getppids, round->nanosleeps);
		puts("end");
		fflush(stdout);
		free(rounds);
	}
	return 0;
}
