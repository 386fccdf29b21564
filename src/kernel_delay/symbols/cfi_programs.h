/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes that are left to be read. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
};

/* Of an address, and of one in a function's entry. */
struct pointer_sizes {
	size_t address;
	size_t encoded;
};

/* Whether libdw does little for it, and does not fail: then it would look for other information.
 * work: what it costs is added, a unit for each byte that is simple. usable: of an initial
 * program, a CIE's, which becomes false if libdw fails at it; NULL of a function's.
 */
bool program_is_bounded(struct cursor code, const struct pointer_sizes *sizes, bool *usable,
			uint64_t *work);
