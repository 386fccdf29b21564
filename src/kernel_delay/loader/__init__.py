"""What running BPF programs takes: libbpf, PID namespaces, waiting for events, exits and signals.

Extensions: _libbpf, a thin binding, and _records, the structs of bpf/ with C that works on
them. Prints nothing.
"""
