"""What `watch` tells a monitoring system: counters and gauges by class of thread, and spans."""
