"""What running BPF programs takes: objects, PID namespaces, waiting for events, exits and signals.

And _records: the structs of bpf/core and bpf/threads, and C that works on them. Prints nothing.
"""
