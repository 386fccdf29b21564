"""Tests of what the BPF objects need of the kernel: docs/reference/kernel-requirements.md."""
