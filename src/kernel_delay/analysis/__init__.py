"""From counts, and Samples, to what they mean: pure functions; Open vSwitch's are in ovs/.

Nothing here reads a kernel, a file or a clock. Only what writes docs/reference/verdict.md prints.
"""
