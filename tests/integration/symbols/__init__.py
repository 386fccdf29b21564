"""Stacks and names of real programs, also hostile ones, beside what gdb and perf say."""
