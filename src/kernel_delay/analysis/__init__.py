"""From counts, and Samples, to what they mean: pure functions; Open vSwitch's are in ovs/.

Nothing here reads a kernel, a file or a clock, and nothing prints but what writes docs/verdict.md.
"""
