"""Frames of Python's own, read from the memory of a CPython process.

`find_interpreter` finds the interpreter in a process, and `Threads` reads the frames of its
threads. The process goes on meanwhile, and its memory may be anything: no pointer is trusted.
"""
