"""Programs on Open vSwitch's probes, and their records decoded; one file a monitor."""
