"""Open vSwitch: its main loop, revalidators, flows, log and version; the rest in folders."""
