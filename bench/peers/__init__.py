"""Whom kernel-delay is compared with: one class each."""
