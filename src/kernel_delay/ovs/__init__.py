"""Open vSwitch: its monitors, and what its upcalls, flow keys and packets say."""
