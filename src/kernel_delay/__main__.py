"""`python -m kernel_delay`, the same command as `kernel-delay`."""

import sys

from kernel_delay.cli import main

sys.exit(main())
