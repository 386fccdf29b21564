/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "file_status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int read_file_status(const char *path, struct file_status *status)
{
	const unsigned int fields = STATX_TYPE | STATX_MODE | STATX_INO;
	struct statx found;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, fields, &found))
		return -errno;
	status->inode = found.stx_ino;
	status->mode = found.stx_mode;
	status->device = makedev(found.stx_rdev_major, found.stx_rdev_minor);
	if (!status->device)
		status->device = makedev(found.stx_dev_major, found.stx_dev_minor);
	return 0;
}
