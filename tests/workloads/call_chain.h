/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps a function as written: not inlined, cloned or called in another way. */
#define AS_WRITTEN __attribute__((noipa))

typedef void (*step)(void);

/* In libcall_chain.so: calls back through a function of its own. */
void library_enter(step next);

/* In libcall_chain.so: does nothing, for the way there and back. */
void library_nothing(void);
