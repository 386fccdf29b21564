"""What sets the project up, and writes what is generated."""
