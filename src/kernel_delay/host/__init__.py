"""The machine: its processes, cgroups and tracefs, its names of calls, what it allows."""
