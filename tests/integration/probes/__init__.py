"""Places for probes in real files, as the tool finds them and as others do."""
