/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int read_file_status(const char *path, struct file_status *status)
{
	const unsigned int fields = STATX_TYPE | STATX_MODE | STATX_INO;
	struct statx found;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, fields, &found))
		return -errno;
	status->inode = found.stx_ino;
	status->mode = found.stx_mode;
	status->filesystem = makedev(found.stx_dev_major, found.stx_dev_minor);
	status->device = makedev(found.stx_rdev_major, found.stx_rdev_minor);
	if (!status->device)
		status->device = status->filesystem;
	return 0;
}

void use_one_arena(void)
{
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 1);
#endif
}

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
