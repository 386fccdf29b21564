"""Open vSwitch: what it exchanges with the kernel datapath, and what that costs."""
