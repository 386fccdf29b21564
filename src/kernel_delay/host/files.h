/* SPDX-License-Identifier: Apache-2.0 */

#include <stdint.h>

struct file_status {
	uint64_t inode;
	uint64_t device; /* as dev_t: a device file's own, else that of its file system */
	uint64_t filesystem; /* the device of its file system */
	uint32_t mode;
};

/* What the kernel knows of a file by itself: no server of its file system is asked, as one that is
 * stopped never answers. Returns 0 or -errno.
 */
int read_file_status(const char *path, struct file_status *status);

/* Open the file that found, a descriptor of O_PATH, stands for, if it is one that is stored: a
 * regular file with content, not one of the kernel's. Of a device or a FIFO the very opening does
 * something. Returns a descriptor for reading, or -1 with errno; found stays open.
 */
int open_stored(int found);

/* Find a file with every link, absolute ones and .. too, resolved below root, a directory's
 * descriptor: a container's links mean its own files, not ours. Returns a descriptor of O_PATH,
 * which nothing was done by, or -1 with errno. openat2(2), Linux 5.6.
 */
int find_in_root(int root, const char *path);

/* The same, but -1 with EXDEV if another mount is on the way: nobody but root's file system is
 * asked.
 */
int find_in_mount(int root, const char *path);

/* Have all threads use the same memory: what one frees the others are to use. Called before the
 * first thread begins.
 */
void use_one_arena(void);
