"""What is measured: one module each, listed in bench/plan.py."""
