"""What is counted of threads in a window, beside what the threads did."""
