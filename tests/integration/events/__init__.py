"""Syscall events: each is there, whole and timed, and a storm of them stays bounded."""
