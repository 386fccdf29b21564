"""The integration tests on real kernels, in virtual machines."""
