/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "stored_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A file of the kernel's does something when it is read; most of them say that they are empty. */
static int is_stored(int found)
{
	struct stat st;
	struct statfs fs;

	return !fstat(found, &st) && S_ISREG(st.st_mode) && st.st_size > 0 &&
	       !fstatfs(found, &fs) && fs.f_type != SYSFS_MAGIC;
}

int open_stored(int found)
{
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(found)];

	if (!is_stored(found)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static int find(int root, const char *path, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = resolve,
	};

	return syscall(SYS_openat2, root, path, &how, sizeof(how));
}

int find_in_root(int root, const char *path)
{
	return find(root, path, RESOLVE_IN_ROOT);
}

int find_in_mount(int root, const char *path)
{
	return find(root, path, RESOLVE_IN_ROOT | RESOLVE_NO_XDEV);
}
