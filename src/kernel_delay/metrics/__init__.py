"""What `watch` has for a monitoring system: counters and gauges by class of thread, and spans."""
