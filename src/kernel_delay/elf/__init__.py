"""ELF files: their headers, and what is told of a file by those."""
