"""A module for each staged cause, named as it."""
