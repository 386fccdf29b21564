"""Samples to output, one module each: `render(sample)` gives the whole text of one."""
