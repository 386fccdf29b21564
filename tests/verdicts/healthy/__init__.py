"""A module for each program that nothing ails."""
