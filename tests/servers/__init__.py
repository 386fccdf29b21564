"""`make test-servers`: servers of many processes, measured together, and which of them was kept."""
