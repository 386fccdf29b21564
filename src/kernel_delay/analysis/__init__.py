"""From measured to understood: pure functions on what the model holds.

Nothing here reads a kernel, a file or a clock, and nothing prints.
"""
