"""Open vSwitch: a private instance with real traffic, and what its upcalls and flow keys say."""
