"""Monitors of Open vSwitch: a folder each, and a line of `register` that makes it known.

A folder has what only its monitor knows: a `.bpf.c`, the programs in the kernel; `probe`, what
attaches them; `events`, the records of a recording and what they come to; `report`, their text and
JSON; `page`, a page for a browser; and `command`, the options and what connects the others.
`monitor` runs them all.
"""
