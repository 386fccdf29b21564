/* SPDX-License-Identifier: Apache-2.0 */

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
