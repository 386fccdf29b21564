/* SPDX-License-Identifier: Apache-2.0 */

/* From now on a mapped file that gets shorter reads as zeros where it ended, rather than end this
 * process by SIGBUS: libdw maps the files that it reads, and their owner may truncate them.
 */
void outlive_truncation(void);
