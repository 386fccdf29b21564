"""`kernel-delay top`: what is on its screen, and the terminal that shows it."""
