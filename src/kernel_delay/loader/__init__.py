"""What all BPF programs share: objects, PID namespaces, and waiting while they run.

Knows neither what is measured nor what is printed.
"""
