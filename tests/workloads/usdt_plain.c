/* A probe whose note has no semaphore, and no -D that gives it one. */
#include <sys/sdt.h>

int usdt_plain(int value);

int usdt_plain(int value)
{
	STAP_PROBE1(kd_plain, no_semaphore, value);
	return value + 1;
}
