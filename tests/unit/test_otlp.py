"""The same figures by OTLP, as a receiver reads them, and spans of long rounds."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kernel_delay.metrics import answers, otlp
from kernel_delay.metrics.answers import bounded_session
from kernel_delay.metrics.families import FAMILIES, Buckets, values
from kernel_delay.metrics.otlp import OtlpExporter
from kernel_delay.model import Finding, Round
from tests.otlp_receiver import Receiver, attributes
from tests.unit.metric_samples import full_snapshot
from tests.unit.samples import bare_sample, timed_thread
from tests.workload import HANGS_S, wait_until

TID = 4711
MS = 1_000_000

PIECE_BYTES = 1 << 16
MOST_SENT_BYTES = 1 << 28
"""Where an answer ends that has no end: far behind what the sockets' buffers take."""


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end waits for what is left, however long that has no CPU."""
    monkeypatch.setattr(otlp, "ENDS_S", HANGS_S)


@pytest.mark.usefixtures("patient")
def test_a_receiver_has_every_figure() -> None:
    with Receiver() as receiver:
        lines: list[str] = []
        OtlpExporter(receiver.url, full_snapshot, lines.append, interval_s=60).close()
        found = receiver.newest()

    assert not lines
    assert set(found) == {family.name for family in FAMILIES}
    for value in values(full_snapshot()):
        metric = found[value.family.name]
        assert metric.description == value.family.help
        kind = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[value.family.kind]
        assert metric.WhichOneof("data") == kind
        labels = dict(zip(value.family.labels, value.labels, strict=True))
        (point,) = (
            point for point in getattr(metric, kind).data_points if attributes(point) == labels
        )
        if isinstance(value.value, Buckets):
            assert point.count == value.value.counts[-1] == sum(point.bucket_counts)
            assert point.sum == value.value.sum
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            assert tuple(point.explicit_bounds) == value.value.bounds[:-1]
            assert not point.HasField("min")
        else:
            assert point.as_double == value.value
        if kind == "sum":
            assert metric.sum.is_monotonic


@pytest.mark.usefixtures("patient")
def test_a_long_round_is_a_span() -> None:
    finding = Finding("lock", "program", 0.9, TID, "it waited for a lock")
    thread = timed_thread(TID, "handler7", blocked_ns=900 * MS, user_ns=100 * MS)
    sample = bare_sample(thread, verdict=(finding,), round=Round(TID, "handler7", 3))
    with Receiver() as receiver:
        exporter = OtlpExporter(receiver.url, full_snapshot, lambda line: None, interval_s=60)
        exporter.add(sample)
        exporter.add(bare_sample(thread))
        exporter.close()
        (span,) = receiver.spans()

    assert span.name == "long round"
    assert span.end_time_unix_nano - span.start_time_unix_nano == sample.window.duration_ns
    start_us = sample.window.start_time.timestamp() * 1e6
    assert abs(span.start_time_unix_nano / 1000 - start_us) <= 1
    said = attributes(span)
    assert said["thread.name"] == "handler7"
    assert said["thread.id"] == TID
    assert said["kernel_delay.cause"] == "lock"
    assert said["kernel_delay.verdict"] == "it waited for a lock"
    assert thread.time is not None
    assert said["kernel_delay.blocked_ns"] == thread.time.blocked_ns


def test_unreachable_receiver_is_reported_once_and_losses_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The library tries again for so long.
    monkeypatch.setattr(otlp, "TIMEOUT_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        lines: list[str] = []
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        exporter = OtlpExporter(url, full_snapshot, lines.append, interval_s=0.05)
        wait_until(lambda: bool(lines), "the first failure")
        exporter.close()

    assert "can't be reached" in lines[0]
    assert "could not be sent" in lines[-1]
    assert sum("can't be reached" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (302, "302 Found"),
        (308, "308 Permanent Redirect"),
        (401, "401 Unauthorized"),
        (503, "503 Service Unavailable"),
        (599, "599"),
    ],
)
def test_receiver_that_refuses_is_reported_with_its_status(status: int, name: str) -> None:
    lines: list[str] = []
    with Receiver(status=status) as receiver:
        exporter = OtlpExporter(receiver.url, full_snapshot, lines.append, interval_s=0.01)
        wait_until(lambda: bool(lines), "the first failure")
        exporter.close()
    assert lines[0] == f"--otlp {receiver.url} answered {name}; going on, and trying again"
    assert "could not be sent" in lines[-1]


def test_unresponsive_receiver_does_not_delay_the_end() -> None:
    lines: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        OtlpExporter(url, full_snapshot, lines.append, interval_s=60).close()

        assert lines == [f"--otlp {url} did not take the last messages: they are lost"]


def test_receiver_that_is_busy_at_the_end_is_reported_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # The library goes on trying for so long.
    monkeypatch.setattr(otlp, "TIMEOUT_S", HANGS_S)
    lines: list[str] = []
    with Receiver(status=503) as receiver:
        exporter = OtlpExporter(receiver.url, full_snapshot, lines.append, interval_s=0.01)
        wait_until(lambda: exporter._status == 503, "the first answer")
        exporter.close()
        # What goes on trying does not outlive the receiver.
        exporter._metrics.shutdown()
        exporter._sending.join()
    lost = "answered 503 Service Unavailable and did not take the last messages: they are lost"
    assert lines[0] == f"--otlp {receiver.url} {lost}"


def test_an_answer_without_end_is_read_no_further() -> None:
    """And what it answers with is not kept: the message was taken."""
    sent = 0

    def answer() -> Iterator[bytes]:
        nonlocal sent
        while sent < MOST_SENT_BYTES:
            yield bytes(PIECE_BYTES)
            sent += PIECE_BYTES

    lines: list[str] = []
    with Receiver(answer()) as receiver:
        exporter = OtlpExporter(receiver.url, full_snapshot, lines.append, interval_s=0.01)
        wait_until(lambda: len(receiver.metrics) > 1, "the message after the first answer")
        exporter.close()

    assert not any("can't be reached" in line for line in lines)
    # The sockets' buffers have some of it.
    assert sent < MOST_SENT_BYTES


def test_an_answer_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_S", 0.1)
    is_over = threading.Event()

    def answer() -> Iterator[bytes]:
        while not is_over.wait(0.01):
            yield b"x"

    with Receiver(answer()) as receiver:
        exporter = OtlpExporter(receiver.url, full_snapshot, print, interval_s=0.01)
        wait_until(lambda: len(receiver.metrics) > 1, "the message after the first answer")
        is_over.set()
        exporter.close()


def test_a_head_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ANSWER_S", 0.1)
    messages = 0
    is_over = threading.Event()

    def answer() -> None:
        nonlocal messages
        while True:
            with suppress(OSError), listening.accept()[0] as connection:
                messages += 1
                connection.recv(1)
                connection.send(b"HTTP/1.1 200 OK\r\nX: ")
                while not is_over.wait(0.01):
                    connection.send(b"x")
            if is_over.is_set():
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=answer)
        answering.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        exporter = OtlpExporter(url, full_snapshot, lambda _: None, interval_s=0.01)
        wait_until(lambda: messages > 1, "the message after the first answer")
        is_over.set()
        exporter.close()
        answering.join()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def raw_receiver(head: bytes, rest: bytes, pause_s: float) -> Iterator[tuple[str, list[int]]]:
    """A receiver that answers with bytes, and goes on with `rest` until it is hung up on.

    Yields its URL, and a list that has an item for each message.
    """
    messages: list[int] = []
    is_over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            message = connection.recv(PIECE_BYTES)
            messages.append(len(message))
            connection.sendall(head)
            while rest and not is_over.wait(pause_s):
                connection.sendall(rest)

    def accept() -> None:
        with suppress(OSError):
            while not is_over.is_set():
                threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", messages
        is_over.set()
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("head", "rest", "pause_s"),
    [
        (CHUNKED + b"0\r\n", b"a: b\r\n", 0.01),
        (CHUNKED + b"0\r\n", b"a: b\r\n" * 10_000, 0),
        (CHUNKED + b"1;", b"a", 0.01),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0),
    ],
    ids=["trailers", "trailer flood", "chunk size", "continue flood"],
)
def test_an_answer_is_over_in_time_to_its_last_byte(
    head: bytes, rest: bytes, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "ANSWER_S", 0.3)
    # The end of the threads is no part of the test, also where one hangs.
    with raw_receiver(head, rest, pause_s) as (url, messages):
        exporter = OtlpExporter(url, full_snapshot, lambda _: None, interval_s=0.01)
        wait_until(lambda: len(messages) > 1, "the message after the first answer")
        exporter.close()


def test_an_answer_that_floods_is_hung_up_on_before_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "ANSWER_S", 3600)
    with raw_receiver(CHUNKED + b"0\r\n", b"a: b\r\n" * 10_000, 0) as (url, messages):
        exporter = OtlpExporter(url, full_snapshot, lambda _: None, interval_s=0.01)
        wait_until(lambda: len(messages) > 1, "the message after the first answer")
        exporter.close()


@pytest.mark.parametrize("charset", ["undefined", "idna", "no-such-encoding", "base64"])
def test_an_encoding_of_an_answer_decodes_nothing(charset: str) -> None:
    head = f"HTTP/1.1 400 Bad\r\nContent-Type: text/plain; charset={charset}\r\n"
    answer = f"{head}Content-Length: 3\r\nSet-Cookie: a=b\r\n\r\n".encode() + b"\xff.."
    with raw_receiver(answer, b"", 0) as (url, _):
        response = bounded_session(lambda _: None).post(url, data=b"x", timeout=5)
    assert response.status_code == 400
    assert response.text == "\N{REPLACEMENT CHARACTER}.."
    assert not response.headers


@pytest.mark.usefixtures("patient")
def test_an_exporter_that_fails_is_counted_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    class Failing:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def export(self, _: object) -> None:
            nonlocal calls
            calls += 1
            raise UnicodeError("undefined encoding")

        def shutdown(self) -> None:
            pass

    # In their place: exporters of tests before this one may be at their last message still.
    for exporter in ("OTLPMetricExporter", "OTLPSpanExporter"):
        monkeypatch.setattr(otlp, exporter, Failing)
    lines: list[str] = []
    sender = OtlpExporter("http://127.0.0.1:1", full_snapshot, lines.append, interval_s=0.01)
    wait_until(lambda: calls > 1, "the message after the first failure")
    sender.add(bare_sample(timed_thread(TID, "a"), round=Round(TID, "a", 3)))
    sender.close()
    assert "going on, and trying again" in lines[0]
    assert lines[-1].endswith(f": {calls} messages could not be sent")


def test_roots_passwords_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login root password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection = listening.accept()[0]
            received.append(connection.recv(PIECE_BYTES))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            connection.close()

        received: list[bytes] = []
        answering = threading.Thread(target=answer)
        answering.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        bounded_session(lambda _: None).post(url, data=b"x", timeout=5)
        answering.join()
    assert b"Authorization" not in received[0]


@pytest.mark.usefixtures("patient")
def test_names_in_spans_drive_no_terminal() -> None:
    thread = timed_thread(TID, "a\x1b]0;b\x07", blocked_ns=900 * MS, user_ns=100 * MS)
    sample = bare_sample(thread, round=Round(TID, thread.name, 3))
    with Receiver() as receiver:
        exporter = OtlpExporter(receiver.url, full_snapshot, print, interval_s=60)
        exporter.add(sample)
        exporter.close()
        (span,) = receiver.spans()

    assert attributes(span)["thread.name"] == r"a\x1b]0;b\x07"
