"""What can be a trigger: the probes of a process, of its files, and of the kernel.

Nothing here attaches anything; `resolve` says where to.
"""
