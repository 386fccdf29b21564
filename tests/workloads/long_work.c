// SPDX-License-Identifier: Apache-2.0
/*
 * long_work COUNT: COUNT rounds between two polls, each of which sleeps, reads, once more than
 * the one before, and then works for 3 ms on the CPU. Answers with what is between the polls of
 * each, from inside and from outside. Behind each are short rounds, which read and work as well.
 */
#include "workload.h"

#include <poll.h>

#define SLEPT_NS 2000000
#define WORKED_NS 3000000

#define SHORT_ROUNDS 4
#define SHORT_NS 300000

#define MOST_ROUNDS 64

int main(int argc, char **argv)
{
	int64_t inside_ns[MOST_ROUNDS], outside_ns[MOST_ROUNDS];
	int count = atoi(argv[1]), zero = open("/dev/zero", O_RDONLY);
	char byte;

	answer("{}");
	wait_for_line();
	for (int i = 0; i < count && i < MOST_ROUNDS; i++) {
		int64_t before_ns = now_ns(), after_ns;

		poll(NULL, 0, 1);
		after_ns = now_ns();
		sleep_ns(SLEPT_NS);
		for (int calls = 0; calls < i + 1; calls++)
			if (read(zero, &byte, 1) != 1)
				return 1;
		spin_ns(WORKED_NS);
		inside_ns[i] = now_ns() - after_ns;
		poll(NULL, 0, 0);
		outside_ns[i] = now_ns() - before_ns;
		for (int short_rounds = 0; short_rounds < SHORT_ROUNDS; short_rounds++) {
			if (read(zero, &byte, 1) != 1)
				return 1;
			spin_ns(SHORT_NS);
			poll(NULL, 0, 0);
		}
	}
	printf("{\"rounds\": [");
	for (int i = 0; i < count && i < MOST_ROUNDS; i++)
		printf("%s[%lld, %lld]", i ? ", " : "", (long long)inside_ns[i],
		       (long long)outside_ns[i]);
	printf("]}\n");
	fflush(stdout);
	wait_for_line();
	return 0;
}
