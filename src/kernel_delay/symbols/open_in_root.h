/* SPDX-License-Identifier: Apache-2.0 */

/* Open a regular file for reading with every link, absolute ones and .. too, resolved below root, a
 * directory's descriptor: a container's links mean its own files, not ours. Returns a descriptor,
 * or -1 with errno. openat2(2), Linux 5.6.
 */
int open_in_root(int root, const char *path);
