"""Wait chains: from the waits of a thread to what their roots did."""
