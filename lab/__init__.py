"""A private Open vSwitch with traffic, and what disturbs it: for the demo, bench and tests.

Nothing here is in the wheel.
"""
