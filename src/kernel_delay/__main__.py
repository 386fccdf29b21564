"""`python -m kernel_delay`, the same command as `kernel-delay`."""

from kernel_delay import entry  # first: it sees to signals

raise SystemExit(entry.main())
