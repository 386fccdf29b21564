"""kernel-delay's image for arm64 in an emulated machine of that architecture: `make test-arm64`."""
