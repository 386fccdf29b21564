"""Open vSwitch, as monitors share it: flow keys, packets, its log, version, probes and programs."""
