"""The figures for Prometheus: a collector that has a snapshot at each scrape, and its server."""

import hmac
import io
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Self, cast

from msgspec import Struct
from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kernel_delay.errors import InputError, NoInputError, UnavailableError, UsageError
from kernel_delay.host.privileges import without_capabilities
from kernel_delay.host.signals import signals_blocked
from kernel_delay.metrics import Snapshot
from kernel_delay.metrics.clients import Clients
from kernel_delay.metrics.families import FAMILIES, Buckets, Family, values

MOST_REQUEST_BYTES = 16 << 10
"""Of a client's request: more is not read. Prometheus sends some hundreds."""

SERVER_THREAD = "metrics"
"""The name of the thread that listens."""

RETRY_S = 1.0
"""How soon the server waits for clients again where that failed."""


class Address(Struct, frozen=True):
    """Where the server listens."""

    host: IPv4Address | IPv6Address
    port: int

    def __str__(self) -> str:
        """Return it as in a URL."""
        host = f"[{self.host}]" if self.host.version == 6 else str(self.host)
        return f"{host}:{self.port}"


class Access(Struct, frozen=True):
    """Who may read, and how: a certificate and its key, and a token, each a file or None."""

    certificate: Path | None = None
    key: Path | None = None
    token: Path | None = None

    def check(self, address: Address) -> None:
        """Raise UsageError where others can reach the address and not all are given."""
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--metrics-cert and --metrics-key go together")
        if address.host.is_loopback or (self.certificate and self.token):
            return
        raise UsageError(
            f"--metrics {address} can be reached from other machines: add --metrics-cert,"
            " --metrics-key and --metrics-token"
        )

    def read_token(self) -> bytes | None:
        """Return the token; InputError if the file has none, NoInputError if it can't be read."""
        if self.token is None:
            return None
        with _reading(self.token):
            token = self.token.read_bytes().strip()
        if not token:
            raise InputError(f"{self.token} has no token: it is empty")
        return token

    def context(self) -> ssl.SSLContext | None:
        """Return what TLS takes; errors as of read_token()."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            for file in filter(None, (self.certificate, self.key)):
                with _reading(file):
                    file.open("rb").close()
            context.load_cert_chain(self.certificate, self.key)
        except ssl.SSLError as error:
            what = f"{self.certificate} and {self.key} are no certificate and its key"
            raise InputError(f"{what}: {error.reason or error}") from error
        return context


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Raise NoInputError where the file can't be read."""
    try:
        yield
    except OSError as error:
        raise NoInputError(f"can't read {file}: {error.strerror}") from error


class SnapshotCollector(Collector):
    """What prometheus_client asks at each scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        """Have a snapshot from that each time."""
        self._snapshot = snapshot

    def describe(self) -> list[Metric]:
        """Return nothing: there are no other collectors to have the same names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return all that a snapshot has."""
        found: dict[Family, Metric] = {family: _metric(family) for family in FAMILIES}
        for value in values(self._snapshot()):
            _add(found[value.family], list(value.labels), value.value)
        return (metric for metric in found.values() if metric.samples)


def _metric(family: Family) -> Metric:
    kinds: dict[str, Callable[..., Metric]] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    return kinds[family.kind](family.name, family.help, labels=family.labels)


def _add(metric: Metric, labels: list[str], value: float | Buckets) -> None:
    if isinstance(value, Buckets):
        assert isinstance(metric, HistogramMetricFamily)
        texts = ["+Inf" if bound == float("inf") else repr(bound) for bound in value.bounds]
        counts = list(zip(texts, map(float, value.counts), strict=True))
        metric.add_metric(labels, counts, value.sum)
    else:
        assert isinstance(metric, CounterMetricFamily | GaugeMetricFamily)
        metric.add_metric(labels, value)


class MetricsServer:
    """Serves /metrics from construction to close()."""

    def __init__(self, address: Address, access: Access, snapshot: Callable[[], Snapshot]) -> None:
        """Listen; UnavailableError where that can't be.

        `snapshot` is called in threads of the server's own.
        """
        registry = CollectorRegistry(auto_describe=False)
        registry.register(SnapshotCollector(snapshot))
        try:
            self._server = _Server(address, access, registry)
        except OSError as error:
            raise UnavailableError(
                f"--metrics {address}: {(error.strerror or str(error)).lower()}"
            ) from error
        port = int(self._server.server_address[1])
        scheme = "http" if access.certificate is None else "https"
        self.url = f"{scheme}://{Address(address.host, port)}/metrics"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=SERVER_THREAD, daemon=True)
        with signals_blocked():
            without_capabilities(self._thread.start)

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                self._server.serve_forever()
            except (OSError, ValueError):
                # poll(2) has ENOMEM where memory is short; ValueError if it was just closed.
                self._closing.wait(RETRY_S)

    def __enter__(self) -> Self:
        """Return the server itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Serve no more."""
        self.close()

    def close(self) -> None:
        """Serve no more."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """A thread a client, of a few."""

    daemon_threads = True
    block_on_close = False
    # A connection that finds the queue full is tried again after a second.
    request_queue_size = socket.SOMAXCONN

    def __init__(self, address: Address, access: Access, registry: CollectorRegistry) -> None:
        version = address.host.version
        self.address_family = socket.AF_INET6 if version == 6 else socket.AF_INET
        self._context = access.context()
        self.clients = Clients()
        settings = {"registry": registry, "token": access.read_token()}
        handler = type("Handler", (_Handler,), settings)
        super().__init__((str(address.host), address.port), handler)

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        """Accept; the handshake is the client's thread's, so that none waits for another's."""
        client, address = super().get_request()
        if self._context is not None:
            client = self._context.wrap_socket(
                client, server_side=True, do_handshake_on_connect=False
            )
        self.clients.add(client, address[0])
        return client, address

    def service_actions(self) -> None:
        """Do what serve_forever() has done a few times in a second."""
        self.clients.hang_up_late()

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve a client."""
        try:
            self.finish_request(request, client_address)  # type: ignore[arg-type]
        except OSError:
            pass  # Whoever hangs up, or speaks no TLS, is not worth a word: anyone may.
        finally:
            self.clients.remove(cast(socket.socket, request))
            self.shutdown_request(request)  # type: ignore[arg-type]

    def server_close(self) -> None:
        """Listen no more, and hang up on whoever is there."""
        super().server_close()
        self.clients.hang_up_all()


class Request(io.RawIOBase):
    """What a client sends, and no more of it than a request has."""

    def __init__(self, connection: socket.socket) -> None:
        """Read of a connection."""
        self._connection = connection
        self._left = MOST_REQUEST_BYTES

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Read what has come, as a raw stream does; 0 at the end."""
        if not self._left:
            return 0
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Handler(MetricsHandler):
    """Answers those that have the token."""

    server: _Server
    token: bytes | None = None

    def setup(self) -> None:
        """Read a bounded request."""
        super().setup()
        self.rfile = io.BufferedReader(cast(io.RawIOBase, Request(self.connection)))

    def do_GET(self) -> None:  # noqa: N802 (http.server's name)
        """Answer /metrics."""
        if not self._may_read():
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.server.clients.authenticate(self.connection)
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        try:
            super().do_GET()
        except (TypeError, ValueError):
            # Of a version that is no number, before anything is sent.
            self.send_error(400)

    def _may_read(self) -> bool:
        if self.token is None:
            return True
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode("latin-1", "replace"), self.token
        )
