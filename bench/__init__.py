"""What measuring costs, beside every peer that this machine can run: `make bench`."""
