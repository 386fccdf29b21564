"""System calls one by one, the longest first; and stacks: how they are copied, and named."""
