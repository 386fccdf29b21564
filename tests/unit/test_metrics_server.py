"""The server of metrics: what it says, to whom, and over what."""

import errno
import os
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from kernel_delay.errors import InputError, NoInputError, UnavailableError, UsageError
from kernel_delay.metrics import ClassFigures, Snapshot, clients, prometheus
from kernel_delay.metrics.clients import MOST_CLIENTS, source_of
from kernel_delay.metrics.families import FAMILIES
from kernel_delay.metrics.prometheus import (
    MOST_REQUEST_BYTES,
    SERVER_THREAD,
    Access,
    Address,
    MetricsServer,
    Request,
)
from tests.unit.metric_samples import full_snapshot
from tests.workload import HANGS_S, wait_until

LOOPBACK = Address(ip_address("127.0.0.1"), 0)
ANYWHERE = Address(ip_address("0.0.0.0"), 0)
TOKEN = "open-sesame"


class Certificate:
    """A certificate for 127.0.0.1 that is its own authority."""

    def __init__(self, folder: Path) -> None:
        self.path, self.key = folder / "cert.pem", folder / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
        command += ["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1"]
        command += ["-keyout", str(self.key), "-out", str(self.path)]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def plain() -> Iterator[MetricsServer]:
    with MetricsServer(LOOPBACK, Access(), full_snapshot) as server:
        yield server


def get(url: str, token: str | None = None, context: ssl.SSLContext | None = None) -> str:
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=20, context=context) as answer:
        return bytes(answer.read()).decode()


def test_a_scrape_has_each_metric_and_nothing_else(plain: MetricsServer) -> None:
    found = {each.name: each for each in text_string_to_metric_families(get(plain.url))}

    assert set(found) == {family.name for family in FAMILIES}
    for family in FAMILIES:
        metric = found[family.name]
        assert metric.type == family.kind
        assert metric.documentation == family.help
        assert all(set(family.labels) <= set(sample.labels) for sample in metric.samples)
    seconds = {
        (sample.labels["thread_class"], sample.labels["state"]): sample.value
        for sample in found["kernel_delay_thread_seconds"].samples
    }
    assert seconds["main", "runnable"] == 1.5


def test_openmetrics_is_spoken_with_those_who_ask_for_it(plain: MetricsServer) -> None:
    request = urllib.request.Request(plain.url)
    request.add_header("Accept", "application/openmetrics-text; version=1.0.0")
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = bytes(answer.read()).decode()
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_a_version_that_is_no_number_is_refused(
    plain: MetricsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    request = urllib.request.Request(plain.url)
    request.add_header("Accept", "application/openmetrics-text;version=x")
    with pytest.raises(HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=20)
    assert capfd.readouterr() == ("", "")


def test_there_is_nothing_else_to_be_read(plain: MetricsServer) -> None:
    with pytest.raises(HTTPError, match="404"):
        get(plain.url.replace("/metrics", "/"))


def test_reachable_address_needs_a_certificate_and_a_token(
    certificate: Certificate, token: Path
) -> None:
    for access in (
        Access(),
        Access(token=token),
        Access(certificate.path, certificate.key),
        Access(certificate.path, token=token),
    ):
        with pytest.raises(UsageError):
            access.check(ANYWHERE)
    Access(certificate.path, certificate.key, token).check(ANYWHERE)
    Access().check(LOOPBACK)
    Access().check(Address(ip_address("::1"), 0))


def test_only_who_has_the_token_gets_an_answer(certificate: Certificate, token: Path) -> None:
    trusting = ssl.create_default_context(cafile=certificate.path)
    access = Access(certificate.path, certificate.key, token)
    with MetricsServer(LOOPBACK, access, full_snapshot) as server:
        assert server.url.startswith("https://")
        assert "kernel_delay_threads" in get(server.url, TOKEN, trusting)
        for wrong in (None, "", "open", f"{TOKEN}x"):
            with pytest.raises(HTTPError, match="401"):
                get(server.url, wrong, trusting)
        with pytest.raises((OSError, HTTPError)):
            get(server.url.replace("https", "http"), TOKEN)


def test_files_that_are_none_of_that_are_one_line(tmp_path: Path, certificate: Certificate) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(InputError, match="no token"):
        MetricsServer(LOOPBACK, Access(token=empty), full_snapshot)
    with pytest.raises(InputError, match="no certificate"):
        MetricsServer(LOOPBACK, Access(empty, certificate.key), full_snapshot)


def test_a_file_that_is_missing_is_no_input(tmp_path: Path, certificate: Certificate) -> None:
    missing = tmp_path / "missing"
    for access in (
        Access(token=missing),
        Access(missing, certificate.key),
        Access(certificate.path, missing),
    ):
        with pytest.raises(NoInputError, match=r"can't read .*missing: No such file"):
            MetricsServer(LOOPBACK, access, full_snapshot)


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(ip_address("127.0.0.1"), taken.getsockname()[1])
        with pytest.raises(UnavailableError, match="address already in use"):
            MetricsServer(address, Access(), full_snapshot)


def connect(server: MetricsServer, source: str = "127.0.0.1") -> socket.socket:
    port = int(server.url.rpartition(":")[2].partition("/")[0])
    client = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
    client.settimeout(HANGS_S)
    return client


def test_silent_clients_keep_nobody_out(certificate: Certificate, token: Path) -> None:
    trusting = ssl.create_default_context(cafile=certificate.path)
    access = Access(certificate.path, certificate.key, token)
    with ExitStack() as stack:
        server = stack.enter_context(MetricsServer(LOOPBACK, access, full_snapshot))
        for _ in range(2 * MOST_CLIENTS):
            stack.enter_context(connect(server)).send(b"\x16")
        assert "kernel_delay_threads" in get(server.url, TOKEN, trusting)


def test_a_request_byte_by_byte_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the client says something."""
    monkeypatch.setattr(clients, "CLIENT_S", 0.3)
    with (
        MetricsServer(LOOPBACK, Access(), full_snapshot) as server,
        connect(server) as client,
    ):
        client.setblocking(False)

        def is_hung_up_on() -> bool:
            try:
                client.send(b"G")
                return not client.recv(1)
            except BlockingIOError:
                return False
            except OSError:
                return True

        wait_until(is_hung_up_on, "the end of the client's time")
        monkeypatch.setattr(clients, "CLIENT_S", HANGS_S)
        assert "kernel_delay_threads" in get(server.url)


def test_an_answer_that_is_not_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s)
    monkeypatch.setattr(clients, "time", clock)
    names = [f"{number}{'x' * 100_000}" for number in range(100)]
    snapshot = replace(full_snapshot(), classes=dict.fromkeys(names, ClassFigures(threads=1)))
    with MetricsServer(LOOPBACK, Access(), lambda: snapshot) as server, ExitStack() as stack:
        before = set(threading.enumerate())
        client = stack.enter_context(connect(server))
        client.send(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert client.recv(1) == b"H"
        new = set(threading.enumerate()) - before
        assert new
        ahead_s = 2 * clients.CLIENT_S
        wait_until(lambda: not any(each.is_alive() for each in new), "the client's thread's end")


def test_reader_with_a_token_is_not_dropped_for_others(token: Path) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def snapshot() -> Snapshot:
        is_asked.set()
        assert may_answer.wait(HANGS_S)
        return full_snapshot()

    with ExitStack() as stack:
        server = stack.enter_context(MetricsServer(LOOPBACK, Access(token=token), snapshot))
        reader = stack.enter_context(connect(server))
        reader.send(f"GET /metrics HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
        assert is_asked.wait(HANGS_S)
        others = [stack.enter_context(connect(server)) for _ in range(MOST_CLIENTS)]
        assert others[0].recv(1) == b""
        may_answer.set()
        assert reader.recv(8) == b"HTTP/1.0"


def test_a_source_makes_room_for_itself() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(MetricsServer(LOOPBACK, Access(), full_snapshot))
        oldest = stack.enter_context(connect(server))
        flood = [stack.enter_context(connect(server, "127.0.0.2")) for _ in range(MOST_CLIENTS)]
        assert flood[0].recv(1) == b""
        oldest.send(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert oldest.recv(8) == b"HTTP/1.0"


def test_a_subnet_of_ipv6_is_one_source() -> None:
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff:1") != source_of("2001:db8:0:1::1")
    assert source_of("fe80::1%eth0") == source_of("fe80::2")
    assert source_of("192.0.2.1") != source_of("192.0.2.2")


def test_a_request_is_bounded() -> None:
    client, server = socket.socketpair()
    with client, server:
        client.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                client.send(bytes(MOST_REQUEST_BYTES))
        server.settimeout(HANGS_S)
        assert len(Request(server).readall()) == MOST_REQUEST_BYTES


def test_failed_poll_ends_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[OSError] = []

    def fail_once(server: object, poll_interval: float = 0.5) -> None:
        if not failures:
            failures.append(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
            raise failures[0]
        serve_forever(server, poll_interval)

    serve_forever: Any = ThreadingHTTPServer.serve_forever
    monkeypatch.setattr(prometheus, "RETRY_S", 0.0)
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", fail_once)
    with MetricsServer(LOOPBACK, Access(), full_snapshot) as server:
        assert "kernel_delay_" in get(server.url)
    assert failures


def test_its_threads_take_no_signals(plain: MetricsServer) -> None:
    """They are the main thread's: one that is blocked in poll(2) must be woken by them."""
    assert "kernel_delay_threads" in get(plain.url)
    (server,) = (each for each in threading.enumerate() if each.name == SERVER_THREAD)
    status = Path(f"/proc/self/task/{server.native_id}/status").read_text()
    blocked = next(line for line in status.splitlines() if line.startswith("SigBlk"))
    sigint, sigterm = 1 << (2 - 1), 1 << (15 - 1)
    assert int(blocked.split()[1], 16) & (sigint | sigterm) == sigint | sigterm


def test_a_thread_may_call_itself_what_it_likes() -> None:
    """Its name is one label's value, whatever is in it."""
    name = 'x"} 1\nkernel_delay_threads{thread_class="\\'
    snapshot = replace(full_snapshot(), classes={name: ClassFigures(threads=1)})
    with MetricsServer(LOOPBACK, Access(), lambda: snapshot) as server:
        found = {each.name: each for each in text_string_to_metric_families(get(server.url))}

    (sample,) = found["kernel_delay_threads"].samples
    assert sample.labels == {"thread_class": name}
