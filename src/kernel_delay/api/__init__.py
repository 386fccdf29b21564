"""What `import kernel_delay` offers; the package's `__init__` alone is public."""
