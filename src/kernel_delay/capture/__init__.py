"""Measuring: programs in the kernel, the windows they count, and what is read of them."""
