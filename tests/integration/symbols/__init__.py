"""Stacks and names of real programs, beside what gdb and perf say."""
