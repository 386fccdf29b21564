"""System calls of kernel-delay that fail: what it says then, and with which exit code."""
