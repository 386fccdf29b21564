"""What running BPF programs takes: objects, PID namespaces, waiting for events, exits and signals.

And _records: the structs of bpf/core/records.h, with the C that works on them. Prints nothing.
"""
