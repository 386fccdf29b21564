"""When a window opens and closes: planned by the clock, or by triggers in the kernel."""
