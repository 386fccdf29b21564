"""Servers that do not answer: what waits for them in the kernel is not ended by SIGKILL."""
