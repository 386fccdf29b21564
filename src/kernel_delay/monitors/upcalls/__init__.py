"""`kernel-delay upcall-cost` and `upcall-monitor`: packets that the kernel sent to user space."""
