"""The options of metrics: what they take, and what is said where that can't be."""

import sys
from argparse import ArgumentTypeError
from contextlib import ExitStack
from ipaddress import ip_address

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.options import metrics
from kernel_delay.errors import UnavailableError, UsageError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("9797", "127.0.0.1", 9797),
        ("0", "127.0.0.1", 0),
        (":9797", "127.0.0.1", 9797),
        ("localhost:1", "127.0.0.1", 1),
        ("0.0.0.0:9797", "0.0.0.0", 9797),
        ("[::1]:9797", "::1", 9797),
    ],
)
def test_an_address_is_a_port_and_where_it_is(text: str, host: str, port: int) -> None:
    assert metrics.address(text) == (ip_address(host), port)


@pytest.mark.parametrize("text", ["", "node1:9797", "65536", "-1", "127.0.0.1", "::1", "1:2:3"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        metrics.address(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://host:99999",
        "http://[::1",
        "http://host:0",
        "",
        "localhost:4318",
        "grpc://localhost:4317",
        "http://",
    ],
)
def test_what_is_no_receiver_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        metrics.endpoint(text)


class Arguments:
    """Those of a watch."""

    def __init__(self, **changes: object) -> None:
        self.metrics = self.metrics_cert = self.metrics_key = self.metrics_token = self.otlp = None
        self.__dict__.update(changes)


@pytest.mark.parametrize(
    ("option", "value", "package", "installed"),
    [
        ("metrics", metrics.address("0"), "prometheus_client", "prometheus_client"),
        ("otlp", "http://127.0.0.1:1", "opentelemetry", "opentelemetry-exporter-otlp-proto-http"),
    ],
)
def test_a_package_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, option: str, value: object, package: str, installed: str
) -> None:
    for name in list(sys.modules):
        if name.startswith(("kernel_delay.metrics", package)):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    arguments = Arguments(**{option: value})
    with ExitStack() as stack, pytest.raises(UnavailableError) as raised:
        metrics.open_exporter(arguments, "prog", stack)  # type: ignore[arg-type]
    assert package in str(raised.value)
    assert str(raised.value).endswith(f"{sys.executable} -m pip install {installed}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["cert", "key", "token"])
def test_who_may_read_takes_something_to_be_read(name: str) -> None:
    arguments = Arguments(**{f"metrics_{name}": "file"})
    with ExitStack() as stack, pytest.raises(UsageError, match="goes with --metrics"):
        metrics.open_exporter(arguments, "prog", stack)  # type: ignore[arg-type]


def test_invalid_metrics_address_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "--metrics", "node1:9797"]) == 64
    assert "[ADDR:]PORT" in capsys.readouterr().err
