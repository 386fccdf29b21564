"""kernel-delay: is the kernel to blame for a process that is slow?"""
