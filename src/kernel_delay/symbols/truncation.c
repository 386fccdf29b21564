/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static void map_zeros(int number, siginfo_t *info, void *context)
{
	uintptr_t size = sysconf(_SC_PAGESIZE), page = (uintptr_t)info->si_addr & ~(size - 1);

	/* Not executable: code of ours that is gone still ends the process. */
	if (info->si_code != BUS_ADRERR ||
	    mmap((void *)page, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		signal(number, SIG_DFL); /* on return it faults again, and ends */
}

void outlive_truncation(void)
{
	struct sigaction action = {.sa_sigaction = map_zeros, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}
