"""The tests, and what they need: kernels, a real Open vSwitch, workloads."""
