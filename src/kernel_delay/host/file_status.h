/* SPDX-License-Identifier: Apache-2.0 */

#include <stdint.h>

struct file_status {
	uint64_t inode;
	uint64_t device; /* as dev_t: a device file's own, else that of its file system */
	uint32_t mode;
};

/* What the kernel knows of a file by itself: no server of its file system is asked, as one that is
 * stopped never answers. Returns 0 or -errno.
 */
int read_file_status(const char *path, struct file_status *status);
