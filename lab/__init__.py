"""A private Open vSwitch with real traffic: for the demo, the bench and the tests.

Nothing here is in the wheel.
"""
