"""A timeline: what each thread did in a window, slice by slice, as the programs reported it."""
