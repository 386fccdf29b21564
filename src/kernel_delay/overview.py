"""The help of the program itself, which takes no other module."""

OVERVIEW = """\
kernel-delay: is the kernel to blame for a slow process?
It measures where the time of each thread went, and who caused the delays.

Examples:
  sudo kernel-delay -p PID              measure a process for half a second
  sudo kernel-delay --summary -- make   run a program and measure it
  sudo kernel-delay watch -p PID        print each slow iteration of its loop
  sudo kernel-delay -p PID -o now.kdr   also write a recording
  kernel-delay report now.kdr           report from it, on any machine

Commands:
  capture   measure a process (the command if none is given)
  watch     stay attached and record each slow iteration; top: a live view
  where     show where each thread stands now, and who keeps it
  report    print a report from a recording; compare: what changed between two
  check     show what this machine supports; probes: list triggers
  export    write recordings for fleet: the worst of many nodes; mcp: assistants

Commands for Open vSwitch: bridge-loop, revalidator, flows, datapath-ops,
  upcall-monitor, upcall-cost; log: from logs, why poll intervals were long

Options of a command:   kernel-delay COMMAND --help, man kernel-delay-COMMAND
Options without one:    kernel-delay capture --help
Version:                kernel-delay --version
"""
"""What `kernel-delay --help` prints: one screen of 24 lines and 80 columns."""
