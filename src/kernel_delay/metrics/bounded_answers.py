"""HTTP with a receiver of OTLP that may answer anything: what is read of it is bounded."""

import io
import time
from typing import TYPE_CHECKING

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse  # there from urllib3 2 on

MOST_ANSWER_BYTES = 4096
"""An answer of OTLP has some bytes, or a sentence; its status says whether it took the message."""

ANSWER_S = 5.0
"""For so long the body of an answer is read, however often there is a byte of it."""


def bounded_session() -> Session:
    """Return a session that reads MOST_ANSWER_BYTES of a body, and hangs up on those with more."""
    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _BoundedAdapter())
    return session


class _BoundedAdapter(HTTPAdapter):
    def build_response(self, req: PreparedRequest, resp: "BaseHTTPResponse") -> Response:
        """Return a response whose body is there, as far as it is read."""
        response = super().build_response(req, resp)
        response.raw = io.BytesIO(_beginning(resp))
        return response


def _beginning(raw: "BaseHTTPResponse") -> bytes:
    """Read an answer's body to its end, or close it where that does not come."""
    until_s = time.monotonic() + ANSWER_S
    read = bytearray()
    try:
        while len(read) < MOST_ANSWER_BYTES and time.monotonic() < until_s:
            # More at once would wait for all of it.
            byte = raw.read(1, decode_content=False)
            if not byte:
                raw.release_conn()
                return bytes(read)
            read += byte
    except HTTPError:
        pass  # It took the message: its status said so.
    raw.close()
    return bytes(read)
