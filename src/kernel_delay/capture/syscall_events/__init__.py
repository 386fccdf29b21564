"""System calls one by one: stored as they come, the longest kept, their stacks named."""
