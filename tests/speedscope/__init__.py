"""Whether speedscope, which is not ours, reads our folded stacks as what they are."""
