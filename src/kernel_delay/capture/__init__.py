"""A session: plan, programs, processes, Samples; in folders: windows, threads, events, watch."""
