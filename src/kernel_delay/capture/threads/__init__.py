"""From the programs' rings, and the kernel's own counts, to what a Sample says of each thread."""
