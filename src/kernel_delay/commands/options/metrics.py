"""The options of the metrics that `watch` has for a monitoring system, and what serves them."""

import argparse
from contextlib import ExitStack
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kernel_delay.errors import UsageError, not_installed
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.metrics.exporter import Exporter

LOOPBACK = "127.0.0.1"
HIGHEST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where metrics are served, and who may read them."""
    group = parser.add_argument_group("metrics")
    group.add_argument(
        "--metrics",
        type=address,
        metavar="[ADDR:]PORT",
        help="serve metrics for Prometheus at /metrics; ADDR is 127.0.0.1 by default, PORT"
        " 0 selects a free port",
    )
    group.add_argument(
        "--metrics-cert",
        type=Path,
        metavar="FILE",
        help="serve over TLS with this certificate (PEM)",
    )
    group.add_argument(
        "--metrics-key", type=Path, metavar="FILE", help="private key of the certificate (PEM)"
    )
    group.add_argument(
        "--metrics-token",
        type=Path,
        metavar="FILE",
        help="only answer clients that send the token in FILE as `Authorization: Bearer`",
    )
    group.add_argument(
        "--otlp",
        type=endpoint,
        metavar="URL",
        help="send metrics, and a span for each long round, to this OpenTelemetry receiver"
        " (OTLP over HTTP)",
    )


def address(text: str) -> tuple[IPv4Address | IPv6Address, int]:
    """An address, in brackets if it is of IPv6, and a port; or a port alone."""
    host, _, port = text.rpartition(":")
    host = host or LOOPBACK
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        number = int(port)
        found = ip_address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        found, number = None, -1
    if found is None or not 0 <= number <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(
            f"must be [ADDR:]PORT with a numeric address, not {text!r}"
        )
    return found, number


def endpoint(text: str) -> str:
    """The URL of a receiver of OTLP, without the path of what is sent."""
    try:
        url = urlsplit(text)
        is_one = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port above 65535, brackets that hold no address
        is_one = False
    if not is_one:
        raise argparse.ArgumentTypeError(f"must be http://HOST:PORT or https://..., not {text!r}")
    return text


def open_exporter(args: argparse.Namespace, comm: str, stack: ExitStack) -> "Exporter | None":
    """Return what is to be handed the watch's state, None if nothing was asked for.

    Raises UsageError, InputError or UnavailableError where that can't be; `stack` ends it.
    """
    if args.metrics is None:
        _refuse_alone(args)
    if args.metrics is None and args.otlp is None:
        return None
    from kernel_delay.metrics.exporter import Exporter
    from kernel_delay.openvswitch.log import is_open_vswitch

    exporter = Exporter(comm, is_open_vswitch=is_open_vswitch(comm))
    if args.metrics is not None:
        _serve(args, exporter, stack)
    if args.otlp is not None:
        _send(args, exporter, stack)
    return exporter


def _serve(args: argparse.Namespace, exporter: "Exporter", stack: ExitStack) -> None:
    try:
        from kernel_delay.metrics.prometheus import Access, Address, MetricsServer
    except ModuleNotFoundError as error:
        raise not_installed("--metrics", error.name or "prometheus_client") from error
    where = Address(*args.metrics)
    access = Access(args.metrics_cert, args.metrics_key, args.metrics_token)
    access.check(where)
    server = stack.enter_context(MetricsServer(where, access, exporter.snapshot))
    print_message(f"metrics are at {server.url}")


def _send(args: argparse.Namespace, exporter: "Exporter", stack: ExitStack) -> None:
    try:
        from kernel_delay.metrics.otlp import OtlpExporter
    except ModuleNotFoundError as error:
        raise not_installed("--otlp", "opentelemetry-exporter-otlp-proto-http") from error
    sender = stack.enter_context(OtlpExporter(args.otlp, exporter.snapshot, print_message))
    exporter.also_report(sender.add)


def _refuse_alone(args: argparse.Namespace) -> None:
    for name in ("cert", "key", "token"):
        if getattr(args, f"metrics_{name}") is not None:
            raise UsageError(f"--metrics-{name} goes with --metrics")
