"""10,000 flows in guests: is told of them what Open vSwitch and the kernel tell?"""
