"""Quick tests without BPF: mostly of pure code; some of processes, pages and our own files."""
