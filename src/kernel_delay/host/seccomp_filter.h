/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of system calls. What they deny fails with EPERM, and they set no_new_privs. */
#ifndef SECCOMP_FILTER_H
#define SECCOMP_FILTER_H

#include <stddef.h>
#include <stdint.h>

/* Denies all threads the calls of these numbers, and all commands of bpf(2) but these, which are
 * in ascending order. Without any command bpf(2) is not denied. Returns 0 or -errno.
 */
int deny_calls(const int32_t *calls, size_t n_calls, const int32_t *commands, size_t n_commands);

/* Denies the calling thread all calls but those of these numbers. Returns 0 or -errno. */
int allow_calls(const int32_t *calls, size_t n_calls);

/* Has SIGKILL end this process when the thread that forked it ends. */
void end_with_parent(void);

/* Keeps processes of the same user from this one's memory and open files: prctl(2). */
void refuse_tracers(void);

#endif
