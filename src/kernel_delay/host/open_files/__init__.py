"""What a process's file descriptors are of, and which processes have the other end.

From /proc/PID/fd and /proc/PID/net, and for Unix sockets from the kernel's sock_diag(7).
"""
