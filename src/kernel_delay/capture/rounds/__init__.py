"""Rounds: each thread's own windows, and those of them that were long."""
