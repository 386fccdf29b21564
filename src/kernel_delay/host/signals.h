/* SPDX-License-Identifier: Apache-2.0 */

/* How SIGINT, SIGTERM and SIGHUP end the tool: by the status 128 + the signal's number, from the
 * handler, whatever the tool is busy with. The second one always does.
 */
#define END_AT_ONCE 0
#define END_SOON 1 /* give what is being done END_SOON_MS, then end */
#define END_NOT 2 /* note it: who waits ends */

/* Take the signals, or give them back; pairs nest. A SIGHUP that is ignored stays so: nohup(1). */
void signals_take(void);
void signals_give(void);

/* What the first signal shall do from now on; returns what it should so far. */
int signals_set(int how);

/* A descriptor to which a byte is written when a signal is noted, -1 for none. */
void signals_wake(int fd);

/* The signal that was noted, 0 for none. */
int signals_noted(void);

/* What to write to fd before the end, as long as *text is not empty: it is copied. */
void signals_set_shutdown_text(int fd, const char *text);

/*
 * A terminal that gets back before the end the modes which it has now, -1 for none. A negative
 * error number where it has none.
 */
int signals_set_shutdown_modes(int fd);

/* End as SIGINT ends the tool, but with status 0: somebody asked for it by a key. */
void signals_quit(void);
