"""Programs on Open vSwitch and on the kernel's datapath, and their records decoded."""
