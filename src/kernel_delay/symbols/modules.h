/* SPDX-License-Identifier: Apache-2.0 */

/* Start a Dwfl whose modules come with their files, both separate debug files and own. */
Dwfl *modules_begin(void);

/* Between modules_begin and modules_reported only. bias: address in memory minus p_vaddr. The
 * descriptor is taken over, also on failure.
 */
Dwfl_Module *modules_add(Dwfl *dwfl, const char *name, int fd, uint64_t bias);

/* Give a module its separate debug file, and that one's dwz file or -1; both are taken over. */
void module_add_debug(Dwfl_Module *mod, int debug_fd, const char *debug_path, int alt_fd,
		      const char *alt_name);

int modules_reported(Dwfl *dwfl);
void modules_free(Dwfl *dwfl);

/* More than any file's that is not made to have more. */
#define MAX_SYMBOLS 16777216

/* What module_functions found: n functions, the length of their names, each with its NUL, and
 * whether a local one is among them; .dynsym alone has none.
 */
struct functions {
	size_t n;
	size_t names_len;
	bool has_local;
};

/* The names, to be freed, or NULL without memory; addresses has room for all symbols, or for
 * MAX_SYMBOLS, the first of them.
 */
char *module_functions(Dwfl_Module *mod, uint64_t *addresses, struct functions *out);
