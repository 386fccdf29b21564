/* USDT probes of every shape that <sys/sdt.h> writes, for what reads their notes.
 *
 * usdt_target [ROUNDS [PAUSE_US]]: fires every probe ROUNDS times (default 1; 0
 * is for ever), PAUSE_US microseconds apart (default 1000), and prints a line
 * once all its objects are mapped.
 */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/sdt.h>

#define SEMAPHORE(provider, probe)                                                                 \
	__extension__ unsigned short provider##_##probe##_semaphore __attribute__((unused))        \
	__attribute__((section(".probes")))

SEMAPHORE(kd_main, round_start);
SEMAPHORE(kd_main, round_end);
SEMAPHORE(kd_main, shapes);
SEMAPHORE(kd_main, twice);

void usdt_library_work(int round);

int counter;
long table[8];

__attribute__((noinline)) void usdt_work(int round, long index)
{
	signed char narrow = (signed char)round;
	unsigned short *middle = (unsigned short *)&table[1];

	DTRACE_PROBE1(kd_main, round_start, round);
	if (kd_main_shapes_semaphore == 0)
		counter++;
	DTRACE_PROBE8(kd_main, shapes, narrow, *middle, counter, index, table[index], -5, 1UL << 40,
		      &counter);
	DTRACE_PROBE1(kd_main, twice, 1);
	usdt_library_work(round);
	DTRACE_PROBE1(kd_main, twice, 2);
	DTRACE_PROBE(kd_main, round_end);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1;
	long pause_us = argc > 2 ? atol(argv[2]) : 1000;

	puts("ready");
	fflush(stdout);
	for (long round = 0; rounds == 0 || round < rounds; round++) {
		usdt_work((int)round, round % 8);
		usleep((useconds_t)pause_us);
	}
	return 0;
}
