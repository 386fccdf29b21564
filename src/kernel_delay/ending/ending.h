/* SPDX-License-Identifier: Apache-2.0 */

/* How SIGINT and SIGTERM end the tool: by the status 128 + the signal's number, from the handler,
 * whatever the tool is busy with. The second one always does.
 */
#define END_AT_ONCE 0
#define END_SOON 1 /* give what is being done END_SOON_MS, then end */
#define END_NOT 2 /* note it: who waits ends */

/* Take the two signals, or give them back; pairs nest. */
void ending_take(void);
void ending_give(void);

/* What the first signal shall do from now on; returns what it should so far. */
int ending_set(int how);

/* A descriptor to which a byte is written when a signal is noted, -1 for none. */
void ending_wake(int fd);

/* The signal that was noted, 0 for none; and begin anew. */
int ending_noted(void);
void ending_forget(void);

/* What to write to fd before the end, as long as *text is not empty: it is copied. */
void ending_farewell(int fd, const char *text);
