"""Where the threads of processes stand now, what they wait for, and who has that."""
