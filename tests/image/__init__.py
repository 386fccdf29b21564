"""The container image, and the manifests of deploy/: `make test-image`."""
