"""A fleet of many nodes, simulated: what `fleet` finds in it, and how long that takes."""
