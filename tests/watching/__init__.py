"""What `watch` says of provoked long rounds; and whether it, or the monitors, grow."""
