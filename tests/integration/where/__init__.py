"""Where threads stand: held against gdb, and against who staged it."""
