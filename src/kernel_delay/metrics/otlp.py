"""The figures by OTLP: metrics each few seconds, and a span of each long round."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Self

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from kernel_delay.analysis.rounds import cause_name, main_cause
from kernel_delay.analysis.states import states
from kernel_delay.formatting import NS_PER_S, printable
from kernel_delay.host.privileges import without_capabilities
from kernel_delay.host.signals import signals_blocked
from kernel_delay.metrics import Snapshot
from kernel_delay.metrics.answers import bounded_session
from kernel_delay.metrics.families import Buckets, Family, Value, values
from kernel_delay.model import Sample
from kernel_delay.version import VERSION

SERVICE = "kernel-delay"
INTERVAL_S = 15.0
TIMEOUT_S = 5.0
ENDS_S = 0.7
"""For so long the receiver may take what is left when it ends: who ends it waits for that."""

MOST_SPANS = 2048
"""That wait to be sent; more are lost, and counted."""

CUMULATIVE = AggregationTemporality.CUMULATIVE
UNITS = {"seconds": "s", "bytes": "By", "": "1"}


class OtlpExporter:
    """Sends what there is to a receiver, until it is closed.

    `notify` is called with a line when the receiver first takes no message, and at the end.
    """

    def __init__(
        self,
        endpoint: str,
        snapshot: Callable[[], Snapshot],
        notify: Callable[[str], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Send to http(s)://HOST:PORT, from now on."""
        _quiet()
        endpoint = endpoint.rstrip("/")
        self._endpoint, self._snapshot, self._notify = endpoint, snapshot, notify
        self._interval_s = interval_s
        self._began_ns = time.time_ns()
        self._failures = 0
        self._status = 0
        self._resource = Resource.create({"service.name": SERVICE, "service.version": VERSION})
        self._metrics = OTLPMetricExporter(
            f"{endpoint}/v1/metrics", timeout=TIMEOUT_S, session=bounded_session(self._note_status)
        )
        spans = _CountedSpans(
            OTLPSpanExporter(
                f"{endpoint}/v1/traces",
                timeout=TIMEOUT_S,
                session=bounded_session(self._note_status),
            ),
            self._note_failure,
        )
        self._closed = threading.Event()
        self._sending = threading.Thread(target=self._send_each, daemon=True)
        self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)

        def start() -> None:
            self._provider.add_span_processor(BatchSpanProcessor(spans, MOST_SPANS))
            self._sending.start()

        with signals_blocked():
            without_capabilities(start)
        self._tracer = self._provider.get_tracer(SERVICE)

    def __enter__(self) -> Self:
        """Return what sends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Send what is left, and no more."""
        self.close()

    def close(self) -> None:
        """Send what is left, if the receiver takes it soon, and no more."""
        self._closed.set()
        rest = threading.Thread(target=self._send_rest, daemon=True)
        with signals_blocked():
            rest.start()
        rest.join(ENDS_S)
        if rest.is_alive():
            status = f"answered {_status_name(self._status)} and " if self._is_refused() else ""
            lost = f"{status}did not take the last messages: they are lost"
            self._notify(f"--otlp {self._endpoint} {lost}")
        if self._failures:
            messages = "1 message" if self._failures == 1 else f"{self._failures} messages"
            self._notify(f"--otlp {self._endpoint}: {messages} could not be sent")

    def _send_rest(self) -> None:
        self._sending.join()
        self._send()
        self._provider.shutdown()
        self._metrics.shutdown()

    def add(self, sample: Sample) -> None:
        """Have a span of a long round, which is judged."""
        round_, window = sample.round, sample.window
        if round_ is None:
            return
        start_ns = int(window.start_time.timestamp() * 1_000_000) * 1000
        span = self._tracer.start_span(
            "long round",
            start_time=start_ns,
            attributes={
                "process.pid": sample.target.pid,
                "process.executable.name": printable(sample.target.comm),
                "thread.id": round_.tid,
                "thread.name": printable(round_.name),
                "kernel_delay.cause": cause_name(sample),
                "kernel_delay.verdict": main_cause(sample),
                **_state_attributes(sample),
            },
        )
        span.end(start_ns + window.duration_ns)

    def _send_each(self) -> None:
        while not self._closed.wait(self._interval_s):
            self._send()

    def _send(self) -> None:
        self._status = 0  # An answer to a message before says nothing of this one.
        data = metrics_data(self._snapshot(), self._resource, self._began_ns)
        try:
            is_sent = self._metrics.export(data) is MetricExportResult.SUCCESS
        except Exception:  # Versions differ in what they catch, and the thread has to go on.
            is_sent = False
        if not is_sent:
            self._note_failure()

    def _note_status(self, status: int) -> None:
        self._status = status

    def _is_refused(self) -> bool:
        return self._status >= HTTPStatus.MULTIPLE_CHOICES

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures == 1:
            refused = f"answered {_status_name(self._status)}"
            how = refused if self._is_refused() else "can't be reached"
            self._notify(f"--otlp {self._endpoint} {how}; going on, and trying again")


def _status_name(status: int) -> str:
    """Return a status of HTTP as it is known: 302 Found."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _state_attributes(sample: Sample) -> dict[str, int]:
    time_ = sample.threads[0].time
    if time_ is None:
        return {}
    return {f"kernel_delay.{state}_ns": ns for state, ns in states(time_).items() if ns}


def _quiet() -> None:
    """Have what the SDK logs, of each message that fails, not be written among our lines."""
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


class _CountedSpans(SpanExporter):
    """Sends spans, and reports those that could not be sent."""

    def __init__(self, to: SpanExporter, failed: Callable[[], None]) -> None:
        self._to, self._failed = to, failed

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send them."""
        try:
            result = self._to.export(spans)
        except Exception:  # As of metrics.
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self._failed()
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._to.shutdown()


def metrics_data(snapshot: Snapshot, resource: Resource, began_ns: int) -> MetricsData:
    """Return a snapshot as OTLP has it, all of it since `began_ns`, in ns since 1970."""
    now_ns = int(snapshot.read_time * NS_PER_S)
    by_family: dict[Family, list[Value]] = {}
    for value in values(snapshot):
        by_family.setdefault(value.family, []).append(value)
    metrics = [
        Metric(family.name, family.help, UNITS[family.unit], _data(family, of, began_ns, now_ns))
        for family, of in by_family.items()
    ]
    scope = ScopeMetrics(InstrumentationScope(SERVICE), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _data(
    family: Family, found: Sequence[Value], began_ns: int, now_ns: int
) -> Sum | Gauge | Histogram:
    if family.kind == "histogram":
        return Histogram([_lengths(value, began_ns, now_ns) for value in found], CUMULATIVE)
    numbers = [
        NumberDataPoint(_attributes(value), began_ns, now_ns, float(value.value))
        for value in found
        if not isinstance(value.value, Buckets)
    ]
    if family.kind == "gauge":
        return Gauge(numbers)
    return Sum(numbers, CUMULATIVE, is_monotonic=True)


def _lengths(value: Value, began_ns: int, now_ns: int) -> HistogramDataPoint:
    found = value.value
    assert isinstance(found, Buckets)
    below = (0, *found.counts)
    # Of what is in each bucket alone; the infinite bound is left out.
    counts = [now - before for before, now in zip(below, found.counts, strict=False)]
    return HistogramDataPoint(
        attributes=_attributes(value),
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        count=found.counts[-1],
        sum=found.sum,
        bucket_counts=counts,
        explicit_bounds=found.bounds[:-1],
        # Neither is known; the message leaves out what is None.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )


def _attributes(value: Value) -> dict[str, str]:
    return dict(zip(value.family.labels, value.labels, strict=True))
