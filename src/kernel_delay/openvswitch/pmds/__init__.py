"""What PMD threads of ovs-vswitchd did in a window: its own counters of their iterations."""
