"""`make test-sos`: the plugin of deploy/sos, run by Debian's sos."""
