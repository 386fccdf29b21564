"""The machine: its processes and which is meant, cgroups, tracefs, names of calls, rights."""
