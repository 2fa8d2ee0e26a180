"""Maps the response to a write to its outcome: done, gone, replaced, conflict, refused, retry later, or unknown.

Pure; ``client/io/writer.py`` acts on the outcome, ``client/io/informer.py`` uses the delays and messages.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec

from headgate.http.transport import HTTPResponse, Unreachable
from headgate.kube.lenient_reader import find_items
from headgate.kube.serializer import wire_json

Object = dict[str, Any]

_MAX_WAIT_S: Final = 120.0


class WriteOutcome(Enum):
    DONE = "done"
    GONE = "gone"
    """The object does not exist any more. Final."""
    REPLACED = "replaced"
    """Another object has the name: the uid differs. Final."""
    CONFLICT = "conflict"
    """The object is not in the expected state. Read it and decide again."""
    REFUSED = "refused"
    """The server will not accept this write, however often it is sent. Final."""
    BLOCKED = "blocked"
    """A disruption budget forbids the eviction for now. The caller decides when to try again."""
    LATER = "later"
    """The write was not performed and may be sent again later."""
    UNKNOWN = "unknown"
    """The write may have been performed: there was no response, or an ambiguous one. Read the object, or repeat a
    repeatable write."""
    FENCED = "fenced"
    """The write was not sent: this process is not the leader."""


_BY_STATUS: Final = {
    401: WriteOutcome.LATER,  # the transport fetches new credentials, which may be accepted
    404: WriteOutcome.GONE,
    408: WriteOutcome.UNKNOWN,
    409: WriteOutcome.CONFLICT,
    410: WriteOutcome.GONE,
    429: WriteOutcome.LATER,
    500: WriteOutcome.UNKNOWN,  # also the response when etcd had no quorum in time
    502: WriteOutcome.UNKNOWN,
    503: WriteOutcome.LATER,
    504: WriteOutcome.UNKNOWN,
    507: WriteOutcome.LATER,  # the embedded server's disk is full
}
_OTHER_UID: Final = ("UID in precondition", "does not match the UID in record")


class WriteStatus(msgspec.Struct, frozen=True):
    outcome: WriteOutcome
    status: int = 0
    reason: str = ""
    message: str = ""
    wait_s: float = 0.0
    """The delay that the server requested with ``Retry-After``; 0 if none."""
    body: bytes = b""

    @property
    def done(self) -> bool:
        return self.outcome is WriteOutcome.DONE


def status_of_response(response: HTTPResponse) -> WriteStatus:
    if response.ok:
        return WriteStatus(WriteOutcome.DONE, response.status, body=response.body)
    status = _status(response)
    message = message_of(response)
    return WriteStatus(
        _outcome(response.status, status, message),
        response.status,
        str(status.get("reason") or ""),
        message,
        retry_after_s(response),
    )


def status_of_no_response(error: Unreachable) -> WriteStatus:
    return WriteStatus(WriteOutcome.UNKNOWN if error.sent else WriteOutcome.LATER, message=str(error))


def _outcome(code: int, status: Object, message: str) -> WriteOutcome:
    causes = _causes(status)
    if code == 422 and any(cause.get("field") == "metadata.uid" for cause in causes):
        return WriteOutcome.REPLACED
    if code == 409 and any(text in message for text in _OTHER_UID):
        return WriteOutcome.REPLACED
    if code == 429 and any(cause.get("reason") == "DisruptionBudget" for cause in causes):
        return WriteOutcome.BLOCKED
    return _BY_STATUS.get(code, WriteOutcome.UNKNOWN if code >= 500 else WriteOutcome.REFUSED)


def _causes(status: Object) -> list[Object]:
    return find_items(status, "details", "causes")


def _status(response: HTTPResponse) -> Object:
    try:
        status = wire_json.decode(response.body)
    except msgspec.DecodeError:
        return {}
    return status if isinstance(status, dict) else {}


def message_of(response: HTTPResponse) -> str:
    """The message of a refusal, whether it is a Status or not."""
    message = _status(response).get("message")
    return str(message) if message else response.body[:200].decode(errors="replace")


def retry_after_s(response: HTTPResponse) -> float:
    """The delay in ``Retry-After``, at most two minutes; 0 if there is none."""
    wait = response.headers.get("retry-after", "")
    return min(float(wait), _MAX_WAIT_S) if wait.isascii() and wait.isdecimal() and len(wait) < 9 else 0.0
