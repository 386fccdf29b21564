"""Open vSwitch: its main loop, revalidators, flows, log, probes, version; the rest in folders."""
