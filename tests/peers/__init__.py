"""Open vSwitch's own scripts beside our commands: counts, options and cost; bench/ has the rest."""
