"""Which packets and messages were lost in a window: counters of the kernel and of Open vSwitch."""
