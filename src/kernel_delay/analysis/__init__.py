"""From counts, and Samples, to what they mean: pure functions; those of monitors are in monitors/.

Nothing here reads a kernel, a file or a clock.
"""
