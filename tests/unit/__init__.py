"""What needs neither root nor a kernel: pure functions, texts, and fakes."""
