/* SPDX-License-Identifier: Apache-2.0 */

/* A section as libdw uses it, with its table if it has one. */
struct cfi {
	Elf_Data *data;
	const unsigned char *ident;
	bool is_eh;
	uint64_t address;
	const uint8_t *rows;
	size_t n_rows;
	uint64_t rows_address;
};

/* A row of the table is an address and that of its entry, both relative. */
#define ROW_SIZE 8

/* What dwarf_getcfi_elf finds (libdw/dwarf_getcfi_elf.c), which is known to be there; without data
 * where linkers write it otherwise.
 */
void find_eh_cfi(Elf *elf, struct cfi *cfi);
