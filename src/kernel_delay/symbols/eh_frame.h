/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes that are left to be read. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
};

/* A file's .eh_frame, and where that is in memory before any bias. */
struct eh_frame {
	Elf_Data *data;
	const unsigned char *ident;
	uint64_t address;
};

/* Without data: there is none, or not as linkers write it. */
void find_eh_frame(Elf *elf, struct eh_frame *found);
