"""Whether a commit made the tool dearer, by the figures of bench/cost."""
