/* SPDX-License-Identifier: Apache-2.0 */

/* A file's .eh_frame as rows for the kernel, as bpf/event_records.h has them, with rules
 * numbered from 0: sorted by their addresses, which are the file's.
 */
struct unwind_rows {
	uint64_t *rows;
	size_t n_rows;
	uint64_t *rules; /* each a struct unwind_rule */
	size_t n_rules;
	uint64_t bias;
};

/* More than any file's that is not made to have more. */
#define UNWIND_ROWS_MAX 4194304
#define UNWIND_RULES_MAX 65536

/* The module's, to be freed. NULL where it has none, for another architecture than x86-64, where
 * entries overlap, and where to make them would take too long: past deadline_ns of CLOCK_MONOTONIC,
 * or more than those rows and rules.
 */
struct unwind_rows *module_unwind_rows(Dwfl_Module *mod, uint64_t deadline_ns);
void unwind_rows_free(struct unwind_rows *rows);

/* Whether the module has an .eh_frame with something in it. */
bool module_has_eh_frame(Dwfl_Module *mod);

/* Copies the rows with rules numbered from first_rule on, and fills the last entry. */
void unwind_rows_copy(const uint64_t *rows, size_t n_rows, uint32_t first_rule, uint64_t *to);
