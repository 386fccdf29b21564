"""The machine: its processes, its tracefs, its names of calls and interrupts, what it allows."""
