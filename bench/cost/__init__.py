"""What the tool costs in figures without noise, and whether a commit raised one: `make cost`."""
