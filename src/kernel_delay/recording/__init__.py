"""Files that hold what was measured."""
