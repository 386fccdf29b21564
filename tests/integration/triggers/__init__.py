"""Windows that probes open and close."""
