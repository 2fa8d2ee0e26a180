"""The size limit of a stored object, and the error for a larger one.

The bounds are etcd's and the errors those of kube-apiserver: 1.5 MiB for one write, and 2 MiB as the client's maximum.
The size is that of the object as stored, after defaults, admission and managed fields. etcd stores custom objects as
JSON, as this server does, and built-in ones as protobuf, where strings have no escapes: escapes of built-in objects are
not counted, up to :data:`_MAX_ESCAPED_BYTES`.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.kinds.kind import ServedKind
from headgate.store import Item

MAX_BYTES: Final = 1536 * 1024
_MAX_SENT_BYTES: Final = 2048 * 1024  # the maximum of etcd's client
_FRAME_BYTES: Final = 128
"""The approximate size of a write to etcd without the object: keys, a comparison, a lease."""
_MAX_ESCAPED_BYTES: Final = 2 * MAX_BYTES
MAX_GROWN_BYTES: Final = 256 * 1024 * 1024
"""How much larger than their stored size all objects of a list may be together."""


def refusal(kind: ServedKind, item: Item) -> api_errors.StatusError | None:
    """The error if ``item`` is too large to be stored."""
    if len(item.data) + _FRAME_BYTES <= MAX_BYTES:
        return None
    size = len(item.data) + _FRAME_BYTES
    if kind.scheme is None and size <= _MAX_ESCAPED_BYTES:
        size -= item.data.count(b"\\")
    if size <= MAX_BYTES:
        return None
    return too_large(size)


def too_large(size: int = MAX_BYTES + 1) -> api_errors.StatusError:
    """``size``: the size of the write, if it is known."""
    if size <= _MAX_SENT_BYTES:
        return api_errors.unknown_error("etcdserver: request is too large")
    return api_errors.unknown_error(
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max"
        f" ({size} vs. {_MAX_SENT_BYTES})"
    )


def list_too_large() -> api_errors.StatusError:
    text = f"defaults and conversion make the list longer by more than {MAX_GROWN_BYTES} bytes; ask with a limit"
    return api_errors.StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
