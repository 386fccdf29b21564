"""Groups of options, each defined once for all commands that take it."""
