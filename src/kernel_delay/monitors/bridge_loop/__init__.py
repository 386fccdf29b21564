"""`kernel-delay bridge-loop`: how long each pass of ovs-vswitchd's main loop runs and waits."""
