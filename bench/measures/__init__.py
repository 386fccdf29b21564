"""What is measured: a `Measure` in each module, listed in bench/plan.py."""
