/* SPDX-License-Identifier: Apache-2.0 */

/* What a process's call frame information may still cost: the instructions that a stack is unwound
 * by, a unit for each byte that is simple; and what is gone through to find them, where the file
 * has no table of that.
 */
struct cfi_budget {
	uint64_t work;
	uint64_t walk;
};

/* Of one stack, and of all of a process's files. Large programs' stacks take some 10,000, the
 * largest files without a table 30 MiB.
 */
#define STACK_WORK 1048576
#define FILES_WALK 268435456

/* Whether libdwfl may unwind from the address by what the module says; then that is taken from the
 * budget. Not where it is of no use to compilers, but makes libdw take long, or much memory.
 */
bool cfi_is_bounded(Dwfl_Module *mod, uint64_t pc, struct cfi_budget *budget);

/* The same of the module's .eh_frame alone. */
bool eh_cfi_is_bounded(Dwfl_Module *mod, uint64_t pc, struct cfi_budget *budget);
