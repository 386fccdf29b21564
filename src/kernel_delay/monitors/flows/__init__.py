"""`kernel-delay flows`: which flows ovs-vswitchd makes, modifies and deletes, and why."""
