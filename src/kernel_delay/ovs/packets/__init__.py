"""Packets as bytes: dissected, dumped, and written to pcapng files."""
