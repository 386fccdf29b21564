"""A receiver of OTLP over HTTP that keeps what it gets, by OpenTelemetry's own schema."""

import gzip
import threading
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """Listens at `url` on loopback while it is entered."""

    def __init__(self, answer: Iterable[bytes] | None = None, status: int = 200) -> None:
        """Answer with that, which may have no end; None: with nothing."""
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(self.path, body)
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Type", "application/x-protobuf")
                if answer is None:
                    self.send_header("Content-Length", "0")
                self.end_headers()
                with suppress(OSError):
                    for piece in answer or ():
                        self.wfile.write(piece)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            self.metrics.append(ExportMetricsServiceRequest.FromString(body))
        elif path == "/v1/traces":
            self.traces.append(ExportTraceServiceRequest.FromString(body))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def newest(self) -> dict[str, Any]:
        """The metrics of the newest message, by name."""
        (of_resource,) = self.metrics[-1].resource_metrics
        (of_scope,) = of_resource.scope_metrics
        return {metric.name: metric for metric in of_scope.metrics}

    def spans(self) -> list[Any]:
        """All spans, in the order that they came."""
        return [
            span
            for request in self.traces
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a point or a span, as Python's values."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}
