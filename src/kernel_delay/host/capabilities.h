/* SPDX-License-Identifier: Apache-2.0 */
/* The capabilities of one thread: they are each thread's own, and its children's. */
#ifndef CAPABILITIES_H
#define CAPABILITIES_H

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Leaves the calling thread those of the mask @kept that it has. Returns 0 or -errno. */
static inline int limit_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};

	if (syscall(SYS_capget, &header, sets))
		return -errno;
	for (int word = 0; word < _LINUX_CAPABILITY_U32S_3; word++) {
		sets[word].effective &= (uint32_t)(kept >> 32 * word);
		sets[word].permitted &= (uint32_t)(kept >> 32 * word);
		sets[word].inheritable = 0;
	}
	return syscall(SYS_capset, &header, sets) ? -errno : 0;
}

#endif
