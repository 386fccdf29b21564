"""What `watch` does: long rounds, a Sample each, totals of all time, and what it may cost."""
