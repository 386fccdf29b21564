"""What a measured process, or whoever wrote a file, can write, at each parser: `make fuzz`."""
