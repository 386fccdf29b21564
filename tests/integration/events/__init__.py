"""Syscall events: each is there, and a storm of them stays bounded."""
