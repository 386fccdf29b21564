"""HTTP for who sends by OTLP: what a receiver answers is read within bounds, and in time."""

import io
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError

from kernel_delay.metrics.clients import hang_up

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse  # there from urllib3 2 on


MOST_ANSWER_BYTES = 4096
"""An answer of OTLP has some bytes, or a sentence; its status says whether it took the message."""

MOST_RECEIVED_BYTES = 64 << 10
"""Of a whole answer: its head, the sizes of its chunks and its trailers too."""

ANSWER_S = 5.0
"""For so long a whole answer is read, to its last byte."""


def bounded_session(note: Callable[[int], None]) -> Session:
    """Return a session that reads answers within ANSWER_S and MOST_RECEIVED_BYTES.

    It keeps MOST_ANSWER_BYTES of a body, and hangs up on those with more. It follows no
    redirection, and sends no password of ~/.netrc. `note` is called with the status of each answer.
    """
    session = Session()
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter(note))
    return session


class _BoundedFile(io.RawIOBase):
    """What a connection receives for one answer: it ends where the time is over.

    More bytes than MOST_RECEIVED_BYTES are an error.
    """

    def __init__(self, raw: io.RawIOBase, connection: Any) -> None:
        self._raw = raw
        self._left = MOST_RECEIVED_BYTES
        # A limit for each read would let a byte a second go on for ever.
        self._timer = threading.Timer(ANSWER_S, hang_up, (connection,))
        self._timer.daemon = True
        self._timer.start()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        read = self._raw.readinto(buffer)
        self._left -= read or 0
        if self._left < 0:
            raise ConnectionError(f"the answer has more than {MOST_RECEIVED_BYTES:,} bytes")
        return read

    def close(self) -> None:
        self._timer.cancel()
        self._raw.close()
        super().close()


class _BoundedAnswer(HTTPResponse):
    def __init__(self, sock: Any, *arguments: Any, **keywords: Any) -> None:
        super().__init__(sock, *arguments, **keywords)
        self.fp = io.BufferedReader(_BoundedFile(self.fp.detach(), sock))


class _BoundedConnection(HTTPConnection):
    response_class = _BoundedAnswer


class _BoundedTlsConnection(HTTPSConnection):
    response_class = _BoundedAnswer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _BoundedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _BoundedTlsConnection


class _BoundedAdapter(HTTPAdapter):
    def __init__(self, note: Callable[[int], None]) -> None:
        super().__init__()
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        self._note = note

    def build_response(self, req: PreparedRequest, resp: "BaseHTTPResponse") -> Response:
        """Return a response whose body is there, as far as it is read."""
        response = super().build_response(req, resp)
        response.raw = io.BytesIO(_beginning(resp))
        self._note(response.status_code)
        # The exporters need the status alone. A redirected POST would go on as a GET, without the
        # message; an encoding may be one that decodes nothing.
        response.headers.clear()
        response.encoding = "utf-8"
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            # Below 400 the exporters take it for sent.
            response.status_code = max(response.status_code, HTTPStatus.BAD_REQUEST)
        return response


def _beginning(raw: "BaseHTTPResponse") -> bytes:
    """Read an answer's body to its end, or close it where that does not come."""
    read = bytearray()
    try:
        while len(read) < MOST_ANSWER_BYTES:
            # More at once would wait for all of it.
            byte = raw.read(1, decode_content=False)
            if not byte:
                raw.release_conn()
                break
            read += byte
    except HTTPError:
        pass  # It took the message: its status said so.
    raw.close()
    return bytes(read)
