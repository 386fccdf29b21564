"""`make test-stacks`: the stacks of real programs' events, beside those that elfutils finds."""
