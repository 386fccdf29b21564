"""Whether `compare` tells change from chance, of programs that were written elsewhere: not a test
that pytest runs, for it takes minutes and a quiet machine. `python -m tests.comparisons.run`.
"""
