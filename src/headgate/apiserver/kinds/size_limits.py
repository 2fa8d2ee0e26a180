"""The size limit of a stored object, and the error for a larger one.

The bounds are etcd's and the errors those of kube-apiserver: 1.5 MiB for one write, and 2 MiB that its client sends at
all. The size is that of the object as stored, after defaults, admission and managed fields. etcd stores custom objects
as JSON, as this server does, and built-in ones as protobuf, where strings have no escapes: escapes of built-in objects
are not counted, up to :data:`_MOST_ESCAPED_BYTES`.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.kinds.kind import ServedKind
from headgate.store import Item

MOST_BYTES: Final = 1536 * 1024
_MOST_SENT_BYTES: Final = 2048 * 1024
_FRAME_BYTES: Final = 128
"""Roughly what a write to etcd has beside the object: keys, a comparison, a lease."""
_MOST_ESCAPED_BYTES: Final = 2 * MOST_BYTES
MOST_GROWN_BYTES: Final = 256 * 1024 * 1024
"""How much longer all objects of a list may be than they are stored."""


def refusal(kind: ServedKind, item: Item) -> api_errors.StatusError | None:
    """Why ``item`` is too large to be stored, if it is."""
    if len(item.data) + _FRAME_BYTES <= MOST_BYTES:
        return None
    size = len(item.data) + _FRAME_BYTES
    if kind.scheme is None and size <= _MOST_ESCAPED_BYTES:
        size -= item.data.count(b"\\")
    if size <= MOST_BYTES:
        return None
    return too_large(size)


def too_large(size: int = MOST_BYTES + 1) -> api_errors.StatusError:
    """``size``: of the whole write, as far as it is known."""
    if size <= _MOST_SENT_BYTES:
        return api_errors.unknown_error("etcdserver: request is too large")
    return api_errors.unknown_error(
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max"
        f" ({size} vs. {_MOST_SENT_BYTES})"
    )


def list_too_large() -> api_errors.StatusError:
    text = f"defaults and conversion make the list longer by more than {MOST_GROWN_BYTES} bytes; ask with a limit"
    return api_errors.StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
