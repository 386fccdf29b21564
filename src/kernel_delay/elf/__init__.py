"""ELF files: their headers, and what these say of a file."""
