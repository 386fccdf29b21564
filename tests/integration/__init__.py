"""What the tool says of real processes and of a real Open vSwitch, beside what others say."""
