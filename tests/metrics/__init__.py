"""The metrics with a real Prometheus, and a receiver of OTLP: `make test-metrics`."""
